//! Makes the commands known to the server, each from its one record.

use std::cell::Cell;
use std::ffi::{c_char, c_int, CString};
use std::ptr;

use redis_module::raw;

use super::api::call;
use super::args::Args;
use super::context::Ctx;
use super::guard::guard;
use super::load::LoadError;
use super::log;
use crate::error::{Error, SyntaxError};
use crate::parse::{digits, ArgList};
use crate::record::{Access, Argument, Group, Kind, Record};

/// A command: its record and what it does.
pub trait Command {
    /// All there is to know about the command from outside.
    const RECORD: &'static Record;

    /// Runs the command. The number of arguments fits the record. It replies once, or returns the
    /// error that becomes the reply, or lets the client wait.
    fn run(ctx: &Ctx, args: Args<'_>) -> Result<(), Error>;
}

/// One row of the table of commands.
pub struct Registered {
    /// What the command says about itself.
    pub record: &'static Record,
    entry: Entry,
}

type Entry = unsafe extern "C" fn(
    *mut raw::RedisModuleCtx,
    *mut *mut raw::RedisModuleString,
    c_int,
) -> c_int;

/// The ACL category of all commands, where the server lets modules have one.
const CATEGORY: &str = "mq";

impl Registered {
    /// The row of command `C`.
    pub const fn of<C: Command>() -> Registered {
        Registered {
            record: C::RECORD,
            entry: enter::<C>,
        }
    }
}

impl Ctx {
    /// Registers the commands, with their documentation where the server has a place for it.
    pub fn register_commands(&self, commands: &[Registered]) -> Result<(), LoadError> {
        let category = self.add_category();
        for command in commands {
            self.create(command)?;
            // SAFETY: reading a function pointer that is written only at initialisation.
            let Some(find) = (unsafe { raw::RedisModule_GetCommand }) else {
                continue; // before 7.0
            };
            let name = c_string(command.record.name)?;
            // SAFETY: a live context and a NUL-terminated name.
            let handle = unsafe { find(self.raw(), name.as_ptr()) };
            if handle.is_null() {
                return Err(LoadError::new(format!(
                    "{} is not there",
                    command.record.name
                )));
            }
            describe(handle, command.record)?;
            set_categories(handle, command.record, category)?;
        }
        Ok(())
    }

    /// Creates the command with the richest flags that the server knows: it refuses a command for any
    /// flag that is new to it.
    fn create(&self, command: &Registered) -> Result<(), LoadError> {
        let record = command.record;
        let name = c_string(record.name)?;
        let has_first = record.key.is_some() && !record.has_counted_keys();
        let (first, last, step) = if has_first { (1, 1, 1) } else { (0, 0, 0) };
        for newer in (0..=record.newer_flags.len()).rev() {
            let mut flags = record.flags.to_owned();
            if record.has_counted_keys() {
                flags.push_str(" getkeys-api");
            }
            for flag in &record.newer_flags[..newer] {
                flags.push(' ');
                flags.push_str(flag);
            }
            let flags = c_string(&flags)?;
            // SAFETY: the context of `OnLoad`; the server copies both strings, and the entry is a
            // function of this library, which stays loaded.
            let created = unsafe {
                call!(RedisModule_CreateCommand(
                    self.raw(),
                    name.as_ptr(),
                    Some(command.entry),
                    flags.as_ptr(),
                    first,
                    last,
                    step
                ))
            };
            if created == raw::REDISMODULE_OK as c_int {
                return Ok(());
            }
        }
        Err(LoadError::new(format!(
            "the server refused the command {}",
            record.name
        )))
    }

    /// Whether the server now has the module's ACL category.
    fn add_category(&self) -> bool {
        let Ok(name) = c_string(CATEGORY) else {
            return false;
        };
        // SAFETY: the context of `OnLoad` and a NUL-terminated name.
        unsafe {
            raw::RedisModule_AddACLCategory
                .is_some_and(|add| add(self.raw(), name.as_ptr()) == raw::REDISMODULE_OK as c_int)
        }
    }
}

impl Ctx {
    /// Whether the command is called only to tell which of its arguments are keys. That call belongs to no
    /// client.
    fn asks_for_keys(&self) -> bool {
        // SAFETY: a live context.
        unsafe { call!(RedisModule_IsKeysPositionRequest(self.raw())) != 0 }
    }

    /// Tells the server which arguments are keys; of a call that is not well-formed, none.
    fn tell_counted_keys(&self, args: Args<'_>) {
        let first = Record::COUNT_OF_KEYS + 1;
        let most = args.len().saturating_sub(first) as u64;
        let count = args.at(Record::COUNT_OF_KEYS).and_then(digits);
        for at in 0..count.filter(|count| *count <= most).unwrap_or_default() {
            // SAFETY: a context that asks for keys; the argument is there.
            unsafe {
                call!(RedisModule_KeyAtPos(
                    self.raw(),
                    first as c_int + at as c_int
                ))
            };
        }
    }
}

/// The entry of a command: where the server's call becomes a safe one.
unsafe extern "C" fn enter<C: Command>(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> c_int {
    let asked = Cell::new(0);
    // SAFETY: context and arguments of the running command, used only within it.
    let (ctx, args) = unsafe { (Ctx::from_raw(ctx), Args::new(argv, argc, &asked)) };
    // Servers from 7.0 on check the arity themselves; for older ones it is done here.
    if C::RECORD.has_counted_keys() && ctx.asks_for_keys() {
        ctx.tell_counted_keys(args);
    } else if !C::RECORD.accepts(args.len()) {
        ctx.reply_wrong_arity();
    } else {
        match guard(|| C::run(&ctx, args)) {
            Some(Ok(())) => {}
            Some(Err(Error::Syntax)) => ctx.reply_error(&SyntaxError::near(args.last_read())),
            Some(Err(error)) => ctx.reply_error(&error),
            None => ctx.reply_error(&Error::Internal),
        }
    }
    raw::REDISMODULE_OK as c_int
}

/// Puts a command into the ACL categories that its flags mean, which the server does for its own
/// commands only, and into the module's. That may be granted as a whole, and no client has a use for
/// the internal commands.
fn set_categories(
    command: *mut raw::RedisModuleCommand,
    record: &Record,
    own_category: bool,
) -> Result<(), LoadError> {
    // SAFETY: reading a function pointer that is written only at initialisation.
    let Some(set) = (unsafe { raw::RedisModule_SetCommandACLCategories }) else {
        return Ok(()); // before 7.2
    };
    let has = |flag: &str| record.flags.split(' ').any(|other| other == flag);
    let mut categories = vec![if has("fast") { "fast" } else { "slow" }];
    if has("write") {
        categories.push("write");
    }
    if has("readonly") {
        categories.push("read");
    }
    if record.newer_flags.contains(&"blocking") {
        categories.push("blocking");
    }
    if has("admin") {
        categories.extend(["admin", "dangerous"]);
    }
    if own_category && record.group != Group::Internal {
        categories.push(CATEGORY);
    }
    let categories = c_string(&categories.join(" "))?;
    // SAFETY: a command of this module, while it is loaded, and a NUL-terminated string.
    if unsafe { set(command, categories.as_ptr()) } != raw::REDISMODULE_OK as c_int {
        log::notice(format_args!("{} is in no ACL category", record.name));
    }
    Ok(())
}

/// Gives the server what `COMMAND DOCS` and `COMMAND INFO` tell. It copies everything.
fn describe(command: *mut raw::RedisModuleCommand, record: &Record) -> Result<(), LoadError> {
    // SAFETY: reading a function pointer that is written only at initialisation.
    let Some(set_info) = (unsafe { raw::RedisModule_SetCommandInfo }) else {
        return Ok(());
    };
    let mut texts = Texts::default();
    let mut tables = Vec::new();
    let args = arguments(record.arguments, &mut texts, &mut tables)?;
    let mut key_specs: Vec<raw::RedisModuleCommandKeySpec> = (record
        .key
        .into_iter()
        .map(|access| key_spec(access, record.has_counted_keys())))
    .collect();
    key_specs.push(NO_KEY_SPEC);
    let info = raw::RedisModuleCommandInfo {
        version: &INFO_VERSION,
        summary: texts.keep(record.summary)?,
        complexity: texts.keep(record.complexity)?,
        since: texts.keep(record.since)?,
        history: ptr::null_mut(),
        tips: texts.keep_or_null(record.tips)?,
        arity: record.arity,
        key_specs: key_specs.as_mut_ptr(),
        args,
    };
    // SAFETY: a command of this module; all pointers in `info` are to `texts`, `tables` and
    // `key_specs`, which live through the call; the lists end with an empty element.
    if unsafe { set_info(command, &info) } != raw::REDISMODULE_OK as c_int {
        return Err(LoadError::new(format!(
            "the server refused the record of {}",
            record.name
        )));
    }
    Ok(())
}

/// Texts that must outlive a call.
#[derive(Default)]
struct Texts(Vec<CString>);

impl Texts {
    fn keep(&mut self, text: &str) -> Result<*const c_char, LoadError> {
        let text = c_string(text)?;
        let start = text.as_ptr(); // stays where it is when the `CString` moves
        self.0.push(text);
        Ok(start)
    }

    fn keep_or_null(&mut self, text: &str) -> Result<*const c_char, LoadError> {
        if text.is_empty() {
            Ok(ptr::null())
        } else {
            self.keep(text)
        }
    }
}

fn c_string(text: &str) -> Result<CString, LoadError> {
    CString::new(text).map_err(|_| LoadError::new("a record holds a NUL byte"))
}

/// The server's form of an argument list; null for an empty one.
fn arguments(
    list: &[Argument],
    texts: &mut Texts,
    tables: &mut Vec<Box<[raw::RedisModuleCommandArg]>>,
) -> Result<*mut raw::RedisModuleCommandArg, LoadError> {
    if list.is_empty() {
        return Ok(ptr::null_mut());
    }
    let mut table = Vec::with_capacity(list.len() + 1);
    for argument in list {
        let mut flags = 0;
        if argument.optional {
            flags |= raw::REDISMODULE_CMD_ARG_OPTIONAL;
        }
        if argument.multiple {
            flags |= raw::REDISMODULE_CMD_ARG_MULTIPLE;
        }
        let key_spec_index = if matches!(argument.kind, Kind::Key) {
            0
        } else {
            -1
        };
        table.push(raw::RedisModuleCommandArg {
            name: texts.keep(argument.name)?,
            type_: kind(&argument.kind),
            key_spec_index,
            token: texts.keep_or_null(argument.token)?,
            summary: ptr::null(),
            since: ptr::null(),
            flags: flags as c_int,
            deprecated_since: ptr::null(),
            subargs: match argument.kind {
                Kind::OneOf(list) | Kind::Block(list) => arguments(list, texts, tables)?,
                _ => ptr::null_mut(),
            },
            display_text: ptr::null(),
        });
    }
    table.push(NO_ARGUMENT);
    let mut table = table.into_boxed_slice();
    let start = table.as_mut_ptr();
    tables.push(table);
    Ok(start)
}

fn kind(kind: &Kind) -> raw::RedisModuleCommandArgType {
    match kind {
        Kind::Key => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_KEY,
        Kind::Text => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_STRING,
        Kind::Integer => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_INTEGER,
        Kind::UnixTime => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_UNIX_TIME,
        Kind::Token => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_PURE_TOKEN,
        Kind::OneOf(_) => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_ONEOF,
        Kind::Block(_) => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_BLOCK,
    }
}

/// The first argument is the one key, or counts those behind it.
fn key_spec(access: Access, counted: bool) -> raw::RedisModuleCommandKeySpec {
    let flags = match access {
        Access::Read => raw::REDISMODULE_CMD_KEY_RO | raw::REDISMODULE_CMD_KEY_ACCESS,
        Access::Insert => raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_INSERT,
        Access::Update => raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_UPDATE,
        Access::Take => {
            raw::REDISMODULE_CMD_KEY_RW
                | raw::REDISMODULE_CMD_KEY_ACCESS
                | raw::REDISMODULE_CMD_KEY_UPDATE
        }
        Access::Delete => raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_DELETE,
    };
    let (find_keys_type, fk) = if counted {
        let keynum = raw::RedisModuleCommandKeySpec__bindgen_ty_2__bindgen_ty_2 {
            keynumidx: 0,
            firstkey: 1,
            keystep: 1,
        };
        (
            raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_KEYNUM,
            raw::RedisModuleCommandKeySpec__bindgen_ty_2 { keynum },
        )
    } else {
        let range = raw::RedisModuleCommandKeySpec__bindgen_ty_2__bindgen_ty_1 {
            lastkey: 0,
            keystep: 1,
            limit: 0,
        };
        (
            raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_RANGE,
            raw::RedisModuleCommandKeySpec__bindgen_ty_2 { range },
        )
    };
    raw::RedisModuleCommandKeySpec {
        notes: ptr::null(),
        flags: u64::from(flags),
        begin_search_type: raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_INDEX,
        bs: raw::RedisModuleCommandKeySpec__bindgen_ty_1 {
            index: raw::RedisModuleCommandKeySpec__bindgen_ty_1__bindgen_ty_1 { pos: 1 },
        },
        find_keys_type,
        fk,
    }
}

/// The layout of the structures below, which the bindings declare but do not define.
const INFO_VERSION: raw::RedisModuleCommandInfoVersion = raw::RedisModuleCommandInfoVersion {
    version: 1,
    sizeof_historyentry: size_of::<raw::RedisModuleCommandHistoryEntry>(),
    sizeof_keyspec: size_of::<raw::RedisModuleCommandKeySpec>(),
    sizeof_arg: size_of::<raw::RedisModuleCommandArg>(),
};

/// Ends a list of key specs.
const NO_KEY_SPEC: raw::RedisModuleCommandKeySpec = raw::RedisModuleCommandKeySpec {
    notes: ptr::null(),
    flags: 0,
    begin_search_type: raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_INVALID,
    bs: raw::RedisModuleCommandKeySpec__bindgen_ty_1 {
        index: raw::RedisModuleCommandKeySpec__bindgen_ty_1__bindgen_ty_1 { pos: 0 },
    },
    find_keys_type: raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_OMITTED,
    fk: raw::RedisModuleCommandKeySpec__bindgen_ty_2 {
        range: raw::RedisModuleCommandKeySpec__bindgen_ty_2__bindgen_ty_1 {
            lastkey: 0,
            keystep: 0,
            limit: 0,
        },
    },
};

/// Ends a list of arguments.
const NO_ARGUMENT: raw::RedisModuleCommandArg = raw::RedisModuleCommandArg {
    name: ptr::null(),
    type_: raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_STRING,
    key_spec_index: -1,
    token: ptr::null(),
    summary: ptr::null(),
    since: ptr::null(),
    flags: 0,
    deprecated_since: ptr::null(),
    subargs: ptr::null_mut(),
    display_text: ptr::null(),
};

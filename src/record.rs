//! What is to be known about a command from outside: one record, from which the server's registration,
//! `COMMAND DOCS`, `MQ.HELP` and the page `docs/commands.md` are made.

use std::ffi::CStr;

/// The command that effects travel as, to replicas and to the append-only file.
pub const APPLY: &CStr = c"mq.apply";

/// One command.
#[derive(Debug)]
pub struct Record {
    /// The name in lower case, as `mq.enqueue`.
    pub name: &'static str,
    /// The whole command as a user writes it.
    pub syntax: &'static str,
    /// What it does, in one sentence.
    pub summary: &'static str,
    /// What it costs.
    pub complexity: &'static str,
    /// The first version that has it.
    pub since: &'static str,
    /// Where it stands in the documentation.
    pub group: Group,
    /// The number of arguments with the command's name; negative: at least that many.
    pub arity: i32,
    /// The server's flags, separated by spaces; every supported server knows them.
    pub flags: &'static str,
    /// Flags that older servers refuse, the most widely known first.
    pub newer_flags: &'static [&'static str],
    /// How the key is used, or each of several: the first argument, or those that it counts; `None` for commands without a key.
    pub key: Option<Access>,
    /// Tips for clients and proxies, separated by spaces.
    pub tips: &'static str,
    /// The arguments after the name.
    pub arguments: &'static [Argument],
    /// The description as Markdown, which ends with a line break.
    #[cfg_attr(not(test), allow(dead_code, reason = "the page is written by a test"))]
    pub details: &'static str,
}

/// The chapters of the documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// For those who add messages.
    Producers,
    /// For those who work on messages.
    Consumers,
    /// For those who run the queue.
    Operators,
    /// For those who look.
    Inspection,
    /// Between servers.
    Internal,
}

/// What a command does with the content of its key; ACL key permissions and client-side caches go by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads and changes nothing.
    Read,
    /// Adds.
    Insert,
    /// Changes what is there.
    Update,
    /// Changes what is there and tells of its content.
    Take,
    /// Removes.
    Delete,
}

/// One argument.
#[derive(Debug)]
pub struct Argument {
    /// Its name in the documentation.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// The word before it, or, for [`Kind::Token`], itself; empty for none.
    pub token: &'static str,
    /// Whether it may be left out.
    pub optional: bool,
    /// Whether it may be repeated.
    pub multiple: bool,
}

/// What an argument is.
#[derive(Debug)]
pub enum Kind {
    /// The queue.
    Key,
    /// Any bytes.
    Text,
    /// A whole number.
    Integer,
    /// An instant in Unix milliseconds.
    UnixTime,
    /// A word by itself.
    Token,
    /// One of several.
    OneOf(&'static [Argument]),
    /// Several that belong together.
    Block(&'static [Argument]),
}

impl Record {
    /// Where the number of the keys stands that begin behind it, if the command has several.
    pub const COUNT_OF_KEYS: usize = 1;

    /// Whether the command has several keys, and their number before them.
    pub const fn has_counted_keys(&self) -> bool {
        let mut at = 0;
        while at < self.arguments.len() {
            let argument = &self.arguments[at];
            if matches!(argument.kind, Kind::Key) && argument.multiple {
                return true;
            }
            at += 1;
        }
        false
    }

    /// Whether a call with that many arguments, the command's name included, is complete.
    #[inline]
    pub const fn accepts(&self, args: usize) -> bool {
        let needed = self.arity.unsigned_abs() as usize;
        if self.arity < 0 {
            args >= needed
        } else {
            args == needed
        }
    }
}

impl Argument {
    /// The queue, first argument of nearly all commands.
    pub const QUEUE: Argument = Argument::new("queue", Kind::Key);

    /// An argument that must be there.
    pub const fn new(name: &'static str, kind: Kind) -> Argument {
        Argument {
            name,
            kind,
            token: "",
            optional: false,
            multiple: false,
        }
    }

    /// A word by itself.
    pub const fn word(name: &'static str, token: &'static str) -> Argument {
        Argument::new(name, Kind::Token).after(token)
    }

    /// The same after a word.
    pub const fn after(mut self, token: &'static str) -> Argument {
        self.token = token;
        self
    }

    /// The same, but it may be left out.
    pub const fn optional(mut self) -> Argument {
        self.optional = true;
        self
    }

    /// The same, but it may be repeated.
    pub const fn multiple(mut self) -> Argument {
        self.multiple = true;
        self
    }
}

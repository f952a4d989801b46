//! A native data type from a trait: the callbacks the server needs, made safe.

use std::ffi::{c_int, c_void, CStr};
use std::marker::PhantomData;
use std::process::abort;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use redis_module::raw;

use super::api::call;
use super::args::{bytes, KeyName};
use super::context::Ctx;
use super::defrag::{defrag, Mover};
use super::guard::guard;
use super::load::LoadError;
use super::log;
use super::rdb::{AofWriter, DigestWriter, IoError, RdbReader, RdbWriter};

/// A value that a key of the module's own type holds.
///
/// The server may drop a value on another thread, so dropping it must touch nothing that is not
/// synchronised, and may save it in a child process, so saving must neither change it nor take locks.
pub trait NativeType: Send + Sized + 'static {
    /// The type's name: nine characters of `A-Za-z0-9-_`, the answer of `TYPE`.
    const NAME: &'static CStr;
    /// The version that [`NativeType::save`] writes.
    const ENCODING: i32;

    /// Reads what `save` of this or an older version wrote, and checks it: the bytes may come from
    /// anyone who may `RESTORE`. What is refused says why with [`RdbReader::refuse`].
    fn load(reader: &mut RdbReader<'_>, encoding: i32) -> Result<Self, IoError>;
    /// Writes everything that replicates.
    fn save(&self, writer: &mut RdbWriter<'_>);
    /// Writes commands that rebuild the value exactly.
    fn rewrite(&self, writer: &mut AofWriter<'_>);
    /// Takes in everything that replicates, in an order that depends on nothing else.
    fn digest(&self, digest: &mut DigestWriter<'_>);
    /// Bytes of memory; may be estimated from `samples` messages, where 0 asks for all.
    fn memory_usage(&self, samples: usize) -> usize;
    /// About how many allocations freeing takes; the server frees over 64 in the background.
    fn free_effort(&self) -> usize;
    /// Lets `mover` move some of the value's blocks: those at `cursor`, which is 0 at first. Returns the
    /// cursor of those that come next, none after the last.
    fn defrag(&mut self, cursor: u64, mover: &mut Mover) -> Option<u64>;
    /// The value has been taken from its key; it may be freed next, or have another key.
    fn unlinked(&self);
    /// The same value again, for `COPY` to this database and key, where the server tells (7.0 and later).
    fn copy(&self, place: Option<(i32, &[u8])>) -> Option<Self>;
}

/// The registered type, known once the module has loaded.
pub struct TypeHandle<T> {
    raw: AtomicPtr<raw::RedisModuleType>,
    value: PhantomData<fn() -> T>,
}

/// What `MEMORY USAGE` samples by default; servers before 7.0 do not say.
const DEFAULT_SAMPLES: usize = 5;

impl<T: NativeType> TypeHandle<T> {
    /// A handle for a `static`.
    pub const fn new() -> TypeHandle<T> {
        TypeHandle {
            raw: AtomicPtr::new(ptr::null_mut()),
            value: PhantomData,
        }
    }

    /// Makes the type known to the server.
    pub fn register(&self, ctx: &Ctx) -> Result<(), LoadError> {
        // All callbacks in their old and their new form: each server takes the newest it knows.
        let mut methods = raw::RedisModuleTypeMethods {
            version: u64::from(raw::REDISMODULE_TYPE_METHOD_VERSION),
            rdb_load: Some(rdb_load::<T>),
            rdb_save: Some(rdb_save::<T>),
            aof_rewrite: Some(aof_rewrite::<T>),
            mem_usage: Some(mem_usage::<T>),
            digest: Some(digest::<T>),
            free: Some(free::<T>),
            aux_load: None,
            aux_save: None,
            aux_save_triggers: 0,
            free_effort: Some(free_effort::<T>),
            unlink: Some(unlink::<T>),
            copy: Some(copy::<T>),
            defrag: Some(defrag::<T>),
            mem_usage2: Some(mem_usage2::<T>),
            free_effort2: Some(free_effort2::<T>),
            unlink2: Some(unlink2::<T>),
            copy2: Some(copy2::<T>),
            aux_save2: None,
        };
        // SAFETY: the context of `OnLoad`; the server copies name and callbacks, and every callback
        // is for values that `WriteKey::create`, `rdb_load` or `copy` boxed.
        let registered = unsafe {
            call!(RedisModule_CreateDataType(
                ctx.raw(),
                T::NAME.as_ptr(),
                T::ENCODING,
                &mut methods
            ))
        };
        if registered.is_null() {
            return Err(LoadError::new(format!(
                "the server refused the type {:?}",
                T::NAME
            )));
        }
        self.raw.store(registered, Ordering::Release);
        Ok(())
    }

    #[inline]
    pub(in crate::redis) fn raw(&self) -> *mut raw::RedisModuleType {
        self.raw.load(Ordering::Relaxed)
    }
}

impl<T: NativeType> Default for TypeHandle<T> {
    fn default() -> Self {
        TypeHandle::new()
    }
}

/// # Safety
///
/// `value` must be a value of type `T` that the server holds and nobody changes meanwhile.
unsafe fn borrow<'a, T>(value: *const c_void) -> &'a T {
    // SAFETY: the caller's contract.
    unsafe { &*value.cast::<T>() }
}

fn boxed<T>(value: Option<T>) -> *mut c_void {
    value.map_or(ptr::null_mut(), |value| {
        Box::into_raw(Box::new(value)).cast()
    })
}

/// Runs a step that writes a file. A value that cannot be written must not become a file that cannot be
/// read, so a panic ends the process: nearly always the child that saves, whose file is then dropped.
fn write_or_abort(step: impl FnOnce()) {
    if guard(step).is_none() {
        log::warning(format_args!(
            "a queue could not be written out, giving up this process"
        ));
        abort();
    }
}

unsafe extern "C" fn rdb_load<T: NativeType>(
    io: *mut raw::RedisModuleIO,
    encoding: c_int,
) -> *mut c_void {
    guard(|| {
        // SAFETY: the stream of this callback.
        let mut reader = unsafe { RdbReader::new(io) };
        if encoding > T::ENCODING {
            reader.refuse("the value was written by a newer version of the module");
            return ptr::null_mut();
        }
        boxed(T::load(&mut reader, encoding).ok())
    })
    .unwrap_or(ptr::null_mut())
}

unsafe extern "C" fn rdb_save<T: NativeType>(io: *mut raw::RedisModuleIO, value: *mut c_void) {
    write_or_abort(|| {
        // SAFETY: the stream of this callback and a value of this type.
        let (mut writer, value) = unsafe { (RdbWriter::new(io), borrow::<T>(value)) };
        value.save(&mut writer);
    });
}

unsafe extern "C" fn aof_rewrite<T: NativeType>(
    io: *mut raw::RedisModuleIO,
    key: *mut raw::RedisModuleString,
    value: *mut c_void,
) {
    write_or_abort(|| {
        // SAFETY: the stream and the key of this callback and a value of this type.
        let (mut writer, value) = unsafe {
            (
                AofWriter::new(io, KeyName::from_raw(key)),
                borrow::<T>(value),
            )
        };
        value.rewrite(&mut writer);
    });
}

unsafe extern "C" fn digest<T: NativeType>(
    digest: *mut raw::RedisModuleDigest,
    value: *mut c_void,
) {
    guard(|| {
        // SAFETY: the digest of this callback and a value of this type.
        let (mut digest, value) = unsafe { (DigestWriter::new(digest), borrow::<T>(value)) };
        value.digest(&mut digest);
    });
}

unsafe extern "C" fn free<T: NativeType>(value: *mut c_void) {
    // SAFETY: the server passes a value that was boxed, once, and forgets it.
    guard(|| drop(unsafe { Box::from_raw(value.cast::<T>()) }));
}

unsafe extern "C" fn mem_usage<T: NativeType>(value: *const c_void) -> usize {
    // SAFETY: a value of this type.
    guard(|| unsafe { borrow::<T>(value) }.memory_usage(DEFAULT_SAMPLES)).unwrap_or(0)
}

unsafe extern "C" fn mem_usage2<T: NativeType>(
    _key: *mut raw::RedisModuleKeyOptCtx,
    value: *const c_void,
    samples: usize,
) -> usize {
    // SAFETY: a value of this type.
    guard(|| unsafe { borrow::<T>(value) }.memory_usage(samples)).unwrap_or(0)
}

unsafe extern "C" fn free_effort<T: NativeType>(
    _key: *mut raw::RedisModuleString,
    value: *const c_void,
) -> usize {
    // SAFETY: a value of this type.
    guard(|| unsafe { borrow::<T>(value) }.free_effort()).unwrap_or(1)
}

unsafe extern "C" fn free_effort2<T: NativeType>(
    _key: *mut raw::RedisModuleKeyOptCtx,
    value: *const c_void,
) -> usize {
    // SAFETY: a value of this type.
    guard(|| unsafe { borrow::<T>(value) }.free_effort()).unwrap_or(1)
}

unsafe extern "C" fn unlink<T: NativeType>(
    _key: *mut raw::RedisModuleString,
    value: *const c_void,
) {
    // SAFETY: a value of this type.
    guard(|| unsafe { borrow::<T>(value) }.unlinked());
}

unsafe extern "C" fn unlink2<T: NativeType>(
    _key: *mut raw::RedisModuleKeyOptCtx,
    value: *const c_void,
) {
    // SAFETY: a value of this type.
    guard(|| unsafe { borrow::<T>(value) }.unlinked());
}

unsafe extern "C" fn copy<T: NativeType>(
    _from: *mut raw::RedisModuleString,
    _to: *mut raw::RedisModuleString,
    value: *const c_void,
) -> *mut c_void {
    // SAFETY: a value of this type.
    guard(|| boxed(unsafe { borrow::<T>(value) }.copy(None))).unwrap_or(ptr::null_mut())
}

unsafe extern "C" fn copy2<T: NativeType>(
    keys: *mut raw::RedisModuleKeyOptCtx,
    value: *const c_void,
) -> *mut c_void {
    // SAFETY: a value of this type, and the keys of this callback.
    guard(|| unsafe { boxed(borrow::<T>(value).copy(destination(keys))) })
        .unwrap_or(ptr::null_mut())
}

/// # Safety
///
/// `keys` must be what the running copy callback got.
unsafe fn destination<'a>(keys: *mut raw::RedisModuleKeyOptCtx) -> Option<(i32, &'a [u8])> {
    // SAFETY: function pointers that are written only at initialisation, the caller's contract, and a
    // string that lives as long as the callback runs.
    unsafe {
        let db = raw::RedisModule_GetToDbIdFromOptCtx?(keys);
        let name = raw::RedisModule_GetToKeyNameFromOptCtx?(keys);
        (db >= 0 && !name.is_null()).then(|| (db, bytes(name)))
    }
}

//! The module's memory comes from the server, so that `used_memory`, `maxmemory` and `MEMORY USAGE`
//! count it and active defragmentation can move it.

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use redis_module::raw;

/// The global allocator of the module: the server's `Alloc`, `Calloc`, `Realloc` and `Free`.
///
/// Allocating before the API is initialised fails, which ends the process; `OnLoad` initialises first.
pub struct ServerAlloc;

/// What the server's allocator aligns a block to whose size is a multiple of that. All usual builds
/// align to 16; one that keeps a size header in front of each block (no `malloc_usable_size`) only to 8.
///
/// Sizes in between are not enough: jemalloc as Redis builds it has classes of 24, 40 and 56 bytes, whose
/// blocks are aligned to 8.
static GUARANTEED: AtomicUsize = AtomicUsize::new(16);

/// Blocks of one size that are alive together while probing: the first of a page is aligned by chance.
const PROBES: usize = 4;

/// Finds out what alignment this server's allocator gives. Must run after the API is initialised and
/// before the first allocation, because blocks are freed the way their alignment says.
pub(in crate::redis) fn probe_alignment() {
    for size in [16, 32, 48, 112, 1024] {
        // SAFETY: the API is initialised, the blocks are freed at once and not read.
        let blocks = [(); PROBES].map(|()| unsafe { server_alloc(size) });
        for block in blocks {
            if !(block as usize).is_multiple_of(16) {
                GUARANTEED.store(8, Ordering::Relaxed);
            }
            // SAFETY: the block came from the same allocator.
            unsafe { server_free(block) };
        }
    }
}

/// The size to ask for, so that a direct block is aligned as its layout says.
#[inline]
fn direct_size(size: usize, align: usize) -> usize {
    if align <= 8 {
        size.max(align)
    } else {
        // Sizes of layouts are far below the end of the address space.
        size.next_multiple_of(align)
    }
}

#[inline]
fn is_direct(layout: &Layout) -> bool {
    // Almost all layouts are answered by the constant alone.
    layout.align() <= 8 || layout.align() <= GUARANTEED.load(Ordering::Relaxed)
}

// SAFETY: blocks are at least as large and as aligned as asked for. A layout takes the direct or the
// shifted way by its alignment only, so a block is always freed the way it was made; `GUARANTEED`
// does not change after the first allocation.
unsafe impl GlobalAlloc for ServerAlloc {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_direct(&layout) {
            // SAFETY: the contract of `alloc` is the caller's.
            unsafe { server_alloc(direct_size(layout.size(), layout.align())) }
        } else {
            // SAFETY: as above.
            unsafe { shifted_alloc(&layout) }
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: reading a function pointer that is written only at initialisation.
        match unsafe { raw::RedisModule_Calloc } {
            // SAFETY: `Calloc` takes any size.
            Some(calloc) if is_direct(&layout) => unsafe {
                calloc(1, direct_size(layout.size(), layout.align())).cast()
            },
            _ => {
                // SAFETY: the contract is the caller's; a block that exists has `size` bytes.
                let block = unsafe { self.alloc(layout) };
                if !block.is_null() {
                    // SAFETY: as above.
                    unsafe { ptr::write_bytes(block, 0, layout.size()) };
                }
                block
            }
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let start = if is_direct(&layout) {
            block
        } else {
            // SAFETY: a shifted block has the start of its allocation in the word before it.
            unsafe { block.cast::<*mut u8>().sub(1).read() }
        };
        // SAFETY: `start` is what the server's allocator returned for this block.
        unsafe { server_free(start) };
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: reading a function pointer that is written only at initialisation.
        match unsafe { raw::RedisModule_Realloc } {
            // SAFETY: a direct block came from the server's allocator.
            Some(realloc) if is_direct(&layout) => unsafe {
                realloc(block.cast(), direct_size(new_size, layout.align())).cast()
            },
            _ => {
                // SAFETY: the caller guarantees that `new_size` with this alignment is a layout.
                let new_layout =
                    unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
                // SAFETY: `new_size` is not zero by the contract of `realloc`.
                let moved = unsafe { self.alloc(new_layout) };
                if !moved.is_null() {
                    // SAFETY: two different blocks, each at least as long as the copied part.
                    unsafe {
                        ptr::copy_nonoverlapping(block, moved, layout.size().min(new_size));
                        self.dealloc(block, layout);
                    }
                }
                moved
            }
        }
    }
}

#[inline]
unsafe fn server_alloc(size: usize) -> *mut u8 {
    // SAFETY: reading a function pointer that is written only at initialisation; `Alloc` takes any size.
    match unsafe { raw::RedisModule_Alloc } {
        // SAFETY: as above.
        Some(alloc) => unsafe { alloc(size).cast() },
        None => ptr::null_mut(),
    }
}

#[inline]
unsafe fn server_free(block: *mut u8) {
    // SAFETY: reading a function pointer that is written only at initialisation.
    if let Some(free) = unsafe { raw::RedisModule_Free } {
        // SAFETY: the caller passes a block of this allocator.
        unsafe { free(block.cast::<c_void>()) };
    }
}

/// A block with room to shift it to its alignment, and the start of the allocation just before it.
#[cold]
unsafe fn shifted_alloc(layout: &Layout) -> *mut u8 {
    let header = size_of::<*mut u8>();
    let Some(size) = layout.size().checked_add(layout.align() + header) else {
        return ptr::null_mut();
    };
    // SAFETY: any size may be asked for.
    let start = unsafe { server_alloc(size) };
    if start.is_null() {
        return start;
    }
    let shift = header + (start as usize + header).wrapping_neg() % layout.align();
    // SAFETY: header <= shift < header + align, so the block of `layout.size()` bytes and the word
    // before it lie inside the allocation; that word is aligned because the block is.
    unsafe {
        let block = start.add(shift);
        block.cast::<*mut u8>().sub(1).write(start);
        block
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    extern "C" {
        fn malloc(size: usize) -> *mut c_void;
        fn calloc(count: usize, size: usize) -> *mut c_void;
        fn realloc(block: *mut c_void, size: usize) -> *mut c_void;
        fn free(block: *mut c_void);
    }

    /// Allocates, grows, shrinks and frees with every alignment, and checks the content on the way.
    fn exercise() {
        for align in [1, 8, 16, 32, 64, 4096] {
            for size in [1, 8, 17, 24, 36, 52, 100, 5000] {
                let layout = Layout::from_size_align(size, align).unwrap();
                // SAFETY: the blocks are used within their layouts and freed once.
                unsafe {
                    let zeroed = ServerAlloc.alloc_zeroed(layout);
                    assert_eq!(zeroed as usize % align, 0, "{layout:?}");
                    assert!((0..size).all(|at| zeroed.add(at).read() == 0), "{layout:?}");
                    ServerAlloc.dealloc(zeroed, layout);

                    let block = ServerAlloc.alloc(layout);
                    block.write_bytes(7, size);
                    let grown = ServerAlloc.realloc(block, layout, 3 * size);
                    let grown_layout = Layout::from_size_align(3 * size, align).unwrap();
                    // A grown block of the direct way is aligned as far as it was asked to be.
                    assert_eq!(grown as usize % align, 0, "{layout:?}");
                    assert!((0..size).all(|at| grown.add(at).read() == 7), "{layout:?}");
                    let shrunk = ServerAlloc.realloc(grown, grown_layout, size);
                    assert!((0..size).all(|at| shrunk.add(at).read() == 7), "{layout:?}");
                    ServerAlloc.dealloc(shrunk, layout);
                }
            }
        }
    }

    /// The server's allocator where it keeps the size in front of each block.
    mod with_header {
        use super::*;

        pub unsafe extern "C" fn alloc(size: usize) -> *mut c_void {
            // SAFETY: a block with room for the header.
            unsafe { malloc(size + 8).add(8) }
        }

        pub unsafe extern "C" fn grow(block: *mut c_void, size: usize) -> *mut c_void {
            // SAFETY: a block of `alloc`.
            unsafe { realloc(block.sub(8), size + 8).add(8) }
        }

        pub unsafe extern "C" fn zeroed(count: usize, size: usize) -> *mut c_void {
            // SAFETY: a block with room for the header.
            unsafe { calloc(1, count * size + 8).add(8) }
        }

        pub unsafe extern "C" fn release(block: *mut c_void) {
            // SAFETY: a block of the functions above.
            unsafe { free(block.sub(8)) }
        }
    }

    /// An allocator like jemalloc with size classes of 8 bytes: blocks whose size is no multiple of 16
    /// are aligned to 8 only.
    mod with_small_classes {
        use super::*;

        fn shift(size: usize) -> usize {
            if size.next_multiple_of(8).is_multiple_of(16) {
                16
            } else {
                8
            }
        }

        pub unsafe extern "C" fn alloc(size: usize) -> *mut c_void {
            // SAFETY: room for the shift, which is kept in the byte before the block.
            unsafe {
                let block = malloc(size + 16).cast::<u8>().add(shift(size));
                block.sub(1).write(shift(size) as u8);
                block.cast()
            }
        }

        pub unsafe extern "C" fn zeroed(count: usize, size: usize) -> *mut c_void {
            // SAFETY: a block of that size.
            unsafe {
                let block = alloc(count * size);
                block.cast::<u8>().write_bytes(0, count * size);
                block
            }
        }

        pub unsafe extern "C" fn grow(block: *mut c_void, size: usize) -> *mut c_void {
            // SAFETY: a block of `alloc`; its content is moved to where the new size belongs.
            unsafe {
                let old = usize::from(block.cast::<u8>().sub(1).read());
                let start = realloc(block.sub(old), size + 16).cast::<u8>();
                ptr::copy(start.add(old), start.add(shift(size)), size);
                start.add(shift(size) - 1).write(shift(size) as u8);
                start.add(shift(size)).cast()
            }
        }

        pub unsafe extern "C" fn release(block: *mut c_void) {
            // SAFETY: a block of the functions above.
            unsafe { free(block.sub(usize::from(block.cast::<u8>().sub(1).read()))) }
        }
    }

    #[test]
    fn blocks_are_aligned_and_kept_whatever_the_server_aligns_to() {
        // SAFETY: no other test uses the server's functions.
        unsafe {
            raw::RedisModule_Alloc = Some(malloc);
            raw::RedisModule_Calloc = Some(calloc);
            raw::RedisModule_Realloc = Some(realloc);
            raw::RedisModule_Free = Some(free);
        }
        probe_alignment();
        assert_eq!(GUARANTEED.load(Ordering::Relaxed), 16);
        exercise();
        // SAFETY: as above; all blocks so far are freed.
        unsafe {
            raw::RedisModule_Alloc = Some(with_header::alloc);
            raw::RedisModule_Calloc = Some(with_header::zeroed);
            raw::RedisModule_Realloc = Some(with_header::grow);
            raw::RedisModule_Free = Some(with_header::release);
        }
        probe_alignment();
        assert_eq!(GUARANTEED.load(Ordering::Relaxed), 8);
        exercise();
        GUARANTEED.store(16, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe {
            raw::RedisModule_Alloc = Some(with_small_classes::alloc);
            raw::RedisModule_Calloc = Some(with_small_classes::zeroed);
            raw::RedisModule_Realloc = Some(with_small_classes::grow);
            raw::RedisModule_Free = Some(with_small_classes::release);
        }
        probe_alignment();
        assert_eq!(GUARANTEED.load(Ordering::Relaxed), 16);
        exercise();
    }
}

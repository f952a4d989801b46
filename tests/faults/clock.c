/* Preloaded into a server, this adds offsets to clocks: the microseconds in the file that MQ_CLOCK_FILE
 * names, as two native 64-bit integers, looked up at every reading. The first is that of the system's
 * clock, as by a real step. The second is that of all clocks but the monotonic one, as if the machine
 * had been asleep. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile const int64_t *offsets;

__attribute__((constructor)) static void open_file(void) {
    const char *path = getenv("MQ_CLOCK_FILE");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *map = mmap(NULL, 2 * sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
    if (map != MAP_FAILED)
        offsets = map;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *out) {
    int result = (int)syscall(SYS_clock_gettime, clock, out);
    int is_system = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
    if (result == 0 && offsets && (is_system || clock == CLOCK_BOOTTIME)) {
        int64_t offset = offsets[1] + (is_system ? offsets[0] : 0);
        int64_t micros = (int64_t)out->tv_sec * 1000000 + out->tv_nsec / 1000 + offset;
        out->tv_nsec = (micros % 1000000) * 1000 + out->tv_nsec % 1000;
        out->tv_sec = micros / 1000000;
    }
    return result;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone) {
    (void)zone;
    struct timespec now;
    int result = clock_gettime(CLOCK_REALTIME, &now);
    out->tv_sec = now.tv_sec;
    out->tv_usec = now.tv_nsec / 1000;
    return result;
}

/* Some servers load modules so that they find the C library before what is preloaded. */
void *dlopen(const char *file, int flags) {
    void *(*next)(const char *, int) = (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");
    return next(file, flags & ~RTLD_DEEPBIND);
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out)
        *out = now.tv_sec;
    return now.tv_sec;
}

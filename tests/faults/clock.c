/* Preloaded into a server, this adds an offset to the system's clock: the microseconds in the file
 * that MQ_CLOCK_FILE names, as one native 64-bit integer, looked up at every reading. The monotonic
 * clock is not touched, as by a real step of the clock. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile const int64_t *offset;

__attribute__((constructor)) static void open_file(void) {
    const char *path = getenv("MQ_CLOCK_FILE");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *map = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
    if (map != MAP_FAILED)
        offset = map;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *out) {
    int result = (int)syscall(SYS_clock_gettime, clock, out);
    if (result == 0 && offset && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t micros = (int64_t)out->tv_sec * 1000000 + out->tv_nsec / 1000 + *offset;
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

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out)
        *out = now.tv_sec;
    return now.tv_sec;
}

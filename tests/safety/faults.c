/* Counts the operations that change the disk below a folder, and at the k-th kills the process or lets it fail.

   Loaded by LD_PRELOAD, so that Python, TensorFlow and HDF5 all go through it; `faults.py` arms it. A child of a fork
   shares the counter with its parent, who reads how far the child came. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { COUNT, KILL, TORN, ERROR, FULL, ASK };
enum { PASS, FAIL, HALF };

static struct shared { long count; char last[600]; } *shared;
static int armed, mode, number;
static long at;
static char folder[4096];
static size_t length;

void fault_arm(const char *path, int how, long when, int error) {
    if (!shared)
        shared = mmap(0, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    length = strlen(path);
    memcpy(folder, path, length + 1);
    mode = how, at = when, number = error;
    shared->count = 0, shared->last[0] = 0;
    armed = 1;
}
/* With ASK the parent is told of each operation before it is done, and looks at the disk as a kill would leave it. */
static int question, answer;
void fault_pipes(int out, int in) { question = out, answer = in; }
static void ask(const char *name, const char *full) {
    char line[700];
    static int turn;
    while (__sync_lock_test_and_set(&turn, 1)) usleep(50); /* one thread at a time */
    int size = snprintf(line, sizeof line, "%s %.600s\n", name, full);
    syscall(SYS_write, question, line, size);
    while (syscall(SYS_read, answer, line, 1) < 0 && errno == EINTR) {}
    __sync_lock_release(&turn);
}
/* Half of a write is on the disk. */
static void after_half(const char *full) {
    if (mode != ASK) kill(getpid(), SIGKILL);
    ask("half", full);
}
void fault_disarm(void) { armed = 0; }
long fault_count(void) { return shared->count; }
const char *fault_last(void) { return shared->last; }

/* Whether a path lies below the folder; `full` gets it. */
static int below(int from, const char *path, char *full) {
    ssize_t size = 0;
    char link[64];
    if (!armed || !path) return 0;
    if (path[0] != '/') {
        snprintf(link, sizeof link, from == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", from);
        if ((size = readlink(link, full, 4000)) < 0) return 0;
        full[size++] = '/';
    }
    strncpy(full + size, path, 4090 - size);
    full[4090] = 0;
    return !strncmp(full, folder, length) && (full[length] == '/' || !full[length]);
}
static int file_below(int file, char *full) {
    char link[64];
    ssize_t size;
    if (!armed) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    if ((size = readlink(link, full, 4000)) < 0) return 0;
    full[size] = 0;
    return !strncmp(full, folder, length) && (full[length] == '/' || !full[length]);
}
/* What becomes of an operation: `grows` if it needs room on the disk, `writes` if half of it could be done. */
static int fate(const char *name, const char *full, int grows, int writes) {
    long now = __sync_add_and_fetch(&shared->count, 1);
    if (mode == ASK) {
        ask(name, full);
        return writes ? HALF : PASS;
    }
    if (mode == FULL && now >= at && grows) {
        if (now == at || !shared->last[0]) snprintf(shared->last, sizeof shared->last, "%s %.500s", name, full);
        errno = number;
        return FAIL;
    }
    if (now != at || mode == COUNT || mode == FULL) return PASS;
    snprintf(shared->last, sizeof shared->last, "%s %.500s", name, full);
    if (mode == TORN && writes) return HALF;
    if (mode == KILL || mode == TORN) kill(getpid(), SIGKILL);
    errno = number;
    return FAIL;
}
/* A whole command is armed by its environment, and leaves the number of its operations in a file. */
__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("FAULT_FOLDER");
    if (path) fault_arm(path, atoi(getenv("FAULT_MODE")), atol(getenv("FAULT_AT")), atoi(getenv("FAULT_ERROR")));
}
__attribute__((destructor)) static void end(void) {
    const char *path = getenv("FAULT_COUNT");
    if (!path || !armed || !shared->count) return;
    armed = 0;
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dprintf(file, "%ld", shared->count);
    close(file);
}
#define REAL(name) static __typeof__(&name) real; if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

#define OPEN(name)                                                                                   \
    int name(const char *path, int flags, ...) {                                                     \
        REAL(name);                                                                                  \
        char full[4096];                                                                             \
        va_list rest;                                                                                \
        va_start(rest, flags);                                                                       \
        mode_t bits = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;                      \
        va_end(rest);                                                                                \
        if (flags & (O_WRONLY | O_RDWR) && below(AT_FDCWD, path, full) &&                            \
            fate("open", full, flags & O_CREAT, 0) == FAIL) return -1;                               \
        return real(path, flags, bits);                                                              \
    }
OPEN(open)
OPEN(open64)
#define OPENAT(name)                                                                                 \
    int name(int from, const char *path, int flags, ...) {                                           \
        REAL(name);                                                                                  \
        char full[4096];                                                                             \
        va_list rest;                                                                                \
        va_start(rest, flags);                                                                       \
        mode_t bits = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;                      \
        va_end(rest);                                                                                \
        if (flags & (O_WRONLY | O_RDWR) && below(from, path, full) &&                                \
            fate("open", full, flags & O_CREAT, 0) == FAIL) return -1;                               \
        return real(from, path, flags, bits);                                                        \
    }
OPENAT(openat)
OPENAT(openat64)
#define FOPEN(name)                                                                                  \
    FILE *name(const char *path, const char *how) {                                                  \
        REAL(name);                                                                                  \
        char full[4096];                                                                             \
        if (strpbrk(how, "wa+") && below(AT_FDCWD, path, full) && fate("fopen", full, 1, 0) == FAIL) \
            return 0;                                                                                \
        return real(path, how);                                                                      \
    }
FOPEN(fopen)
FOPEN(fopen64)

ssize_t write(int file, const void *content, size_t size) {
    REAL(write);
    char full[4096];
    switch (file_below(file, full) ? fate("write", full, 1, 1) : PASS) {
    case FAIL: return -1;
    case HALF:
        if (size < 2) break;
        ssize_t half = real(file, content, size / 2), rest;
        if (half < 0) return half;
        after_half(full);
        rest = real(file, (const char *)content + half, size - half);
        return half + (rest < 0 ? 0 : rest);
    }
    return real(file, content, size);
}
#define PWRITE(name, offset_t)                                                                       \
    ssize_t name(int file, const void *content, size_t size, offset_t place) {                       \
        REAL(name);                                                                                  \
        char full[4096];                                                                             \
        switch (file_below(file, full) ? fate("write", full, 1, 1) : PASS) {                         \
        case FAIL: return -1;                                                                        \
        case HALF: real(file, content, size / 2, place); after_half(full);                           \
        }                                                                                            \
        return real(file, content, size, place);                                                     \
    }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)
ssize_t writev(int file, const struct iovec *parts, int count) {
    REAL(writev);
    char full[4096];
    switch (file_below(file, full) ? fate("write", full, 1, 1) : PASS) {
    case FAIL: return -1;
    case HALF:
        if (count < 2) break;
        ssize_t half = real(file, parts, count / 2), rest;
        if (half < 0) return half;
        after_half(full);
        rest = real(file, parts + count / 2, count - count / 2);
        return half + (rest < 0 ? 0 : rest);
    }
    return real(file, parts, count);
}
size_t fwrite(const void *content, size_t size, size_t count, FILE *stream) {
    REAL(fwrite);
    char full[4096];
    switch (file_below(fileno(stream), full) ? fate("fwrite", full, 1, 1) : PASS) {
    case FAIL: return 0;
    case HALF:
        if (size * count < 2) break;
        size_t bytes = size * count / 2, half = real(content, 1, bytes, stream);
        if (half < bytes) return half / size;
        fflush(stream);
        after_half(full);
        return (half + real((const char *)content + half, 1, size * count - half, stream)) / size;
    }
    return real(content, size, count, stream);
}
int fclose(FILE *stream) {
    REAL(fclose);
    char full[4096];
    int mine = (fcntl(fileno(stream), F_GETFL) & O_ACCMODE) != O_RDONLY && file_below(fileno(stream), full);
    if (mine && fate("fclose", full, 1, 0) == FAIL) {
        int error = errno;
        real(stream);
        errno = error;
        return EOF;
    }
    return real(stream);
}
#define ON_FILE(name, arguments, call, grows)                                                        \
    int name arguments {                                                                             \
        REAL(name);                                                                                  \
        char full[4096];                                                                             \
        if (file_below(file, full) && fate(#name, full, grows, 0) == FAIL) return -1;                \
        return real call;                                                                            \
    }
ON_FILE(fsync, (int file), (file), 1)
ON_FILE(fdatasync, (int file), (file), 1)
ON_FILE(ftruncate, (int file, off_t size), (file, size), 0)
ON_FILE(ftruncate64, (int file, off64_t size), (file, size), 0)
ON_FILE(fchmod, (int file, mode_t bits), (file, bits), 0)
#define ON_PATH(name, arguments, call, from, path, grows)                                            \
    int name arguments {                                                                             \
        REAL(name);                                                                                  \
        char full[4096];                                                                             \
        if (below(from, path, full) && fate(#name, full, grows, 0) == FAIL) return -1;               \
        return real call;                                                                            \
    }
ON_PATH(mkdir, (const char *path, mode_t bits), (path, bits), AT_FDCWD, path, 1)
ON_PATH(mkdirat, (int from, const char *path, mode_t bits), (from, path, bits), from, path, 1)
ON_PATH(rmdir, (const char *path), (path), AT_FDCWD, path, 0)
ON_PATH(unlink, (const char *path), (path), AT_FDCWD, path, 0)
ON_PATH(unlinkat, (int from, const char *path, int flags), (from, path, flags), from, path, 0)
ON_PATH(chmod, (const char *path, mode_t bits), (path, bits), AT_FDCWD, path, 0)
ON_PATH(symlink, (const char *target, const char *path), (target, path), AT_FDCWD, path, 1)
ON_PATH(link, (const char *path, const char *other), (path, other), AT_FDCWD, other, 1)
ON_PATH(linkat, (int one, const char *path, int two, const char *other, int flags), (one, path, two, other, flags), two,
        other, 1)
ON_PATH(rename, (const char *path, const char *other), (path, other), AT_FDCWD, other, 0)
ON_PATH(renameat, (int one, const char *path, int two, const char *other), (one, path, two, other), two, other, 0)
ON_PATH(renameat2, (int one, const char *path, int two, const char *other, unsigned flags),
        (one, path, two, other, flags), two, other, 0)

#define SENDFILE(name, offset_t)                                                                     \
    ssize_t name(int file, int from, offset_t *place, size_t size) {                                 \
        REAL(name);                                                                                  \
        char full[4096];                                                                             \
        switch (file_below(file, full) ? fate("write", full, 1, 1) : PASS) {                         \
        case FAIL: return -1;                                                                        \
        case HALF:                                                                                   \
            if (size < 8) break;                                                                     \
            ssize_t half = real(file, from, place, 7), rest;                                         \
            if (half < 0) return half;                                                               \
            after_half(full);                                                                        \
            rest = real(file, from, place, size - half);                                             \
            return half + (rest < 0 ? 0 : rest);                                                     \
        }                                                                                            \
        return real(file, from, place, size);                                                        \
    }
extern ssize_t sendfile(int, int, off_t *, size_t);
extern ssize_t sendfile64(int, int, off64_t *, size_t);
SENDFILE(sendfile, off_t)
SENDFILE(sendfile64, off64_t)

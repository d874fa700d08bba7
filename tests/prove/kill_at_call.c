/* Kills this process at its Nth system call that changes a file: before the call, or right after it.
 *
 * Preloaded into a Python process, which calls kill_at_call(). The wrappers of the C library are replaced, so whatever
 * uses it (Python, SQLite) is counted, in all threads; child processes are not. With N = 0 every call is only listed.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

static atomic_long counted;
static long target;
static int after_it, log_fd = -1;
static pid_t armed;

long kill_at_call(long number, int after, int fd) {
    target = number;
    after_it = after;
    log_fd = fd;
    counted = 0;
    armed = getpid();
    return 0;
}

static int is_file(int fd) {
    struct stat about;
    int before = errno, found = fstat(fd, &about) == 0 && S_ISREG(about.st_mode);
    errno = before;
    return found;
}

static void note(const char *name, int fd, const char *path) {
    char line[600], link[64], target_path[400] = "";
    int before = errno;
    if (path == NULL) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t length = readlink(link, target_path, sizeof target_path - 1);
        target_path[length > 0 ? length : 0] = 0;
        path = target_path;
    }
    int length = snprintf(line, sizeof line, "%ld %s %s\n", (long)counted, name, path);
    syscall(SYS_write, log_fd, line, length < (int)sizeof line ? length : (int)sizeof line - 1);
    errno = before;
}

/* Whether the process dies after this call. It does not return if it dies before it. */
static int begin(const char *name, int fd, const char *path) {
    if (!armed || getpid() != armed) return 0;
    long number = ++counted;
    if (target && number != target) return 0;
    note(name, fd, path);
    if (!target) return 0;
    if (!after_it) kill(armed, SIGKILL);
    return after_it;
}

static long end(int dies, long result) {
    if (dies) kill(armed, SIGKILL);
    return result;
}

#define REAL(type, name) \
    static type (*real)(); \
    if (!real) real = (type (*)())dlsym(RTLD_NEXT, name)

#define CALL_FD(type, name, declared, given) \
    type name declared { \
        REAL(type, #name); \
        int dies = is_file(fd) ? begin(#name, fd, NULL) : 0; \
        return (type)end(dies, (long)real given); \
    }

CALL_FD(ssize_t, write, (int fd, const void *data, size_t size), (fd, data, size))
CALL_FD(ssize_t, pwrite, (int fd, const void *data, size_t size, off_t at), (fd, data, size, at))
CALL_FD(ssize_t, pwrite64, (int fd, const void *data, size_t size, off_t at), (fd, data, size, at))
CALL_FD(ssize_t, writev, (int fd, const struct iovec *parts, int count), (fd, parts, count))
CALL_FD(int, ftruncate, (int fd, off_t length), (fd, length))
CALL_FD(int, ftruncate64, (int fd, off_t length), (fd, length))
CALL_FD(int, fallocate, (int fd, int mode, off_t at, off_t length), (fd, mode, at, length))
CALL_FD(int, posix_fallocate, (int fd, off_t at, off_t length), (fd, at, length))
CALL_FD(int, fdatasync, (int fd), (fd))
CALL_FD(int, futimens, (int fd, const struct timespec *times), (fd, times))
CALL_FD(int, fchmod, (int fd, mode_t mode), (fd, mode))

int fsync(int fd) { /* of directories as well */
    REAL(int, "fsync");
    int dies = begin("fsync", fd, NULL);
    return (int)end(dies, real(fd));
}

#define CALL_PATH(name, declared, given, path) \
    int name declared { \
        REAL(int, #name); \
        int dies = begin(#name, -1, path); \
        return (int)end(dies, real given); \
    }

CALL_PATH(rename, (const char *old, const char *new), (old, new), new)
CALL_PATH(renameat, (int at, const char *old, int to, const char *new), (at, old, to, new), new)
CALL_PATH(renameat2, (int at, const char *old, int to, const char *new, unsigned flags), (at, old, to, new, flags), new)
CALL_PATH(unlink, (const char *path), (path), path)
CALL_PATH(unlinkat, (int at, const char *path, int flags), (at, path, flags), path)
CALL_PATH(rmdir, (const char *path), (path), path)
CALL_PATH(mkdir, (const char *path, mode_t mode), (path, mode), path)
CALL_PATH(mkdirat, (int at, const char *path, mode_t mode), (at, path, mode), path)
CALL_PATH(link, (const char *old, const char *new), (old, new), new)
CALL_PATH(linkat, (int at, const char *old, int to, const char *new, int flags), (at, old, to, new, flags), new)
CALL_PATH(symlink, (const char *target_path, const char *new), (target_path, new), new)
CALL_PATH(symlinkat, (const char *target_path, int to, const char *new), (target_path, to, new), new)
CALL_PATH(chmod, (const char *path, mode_t mode), (path, mode), path)
CALL_PATH(utimensat, (int at, const char *path, const struct timespec *times, int flags), (at, path, times, flags), path ? path : "")
CALL_PATH(truncate, (const char *path, off_t length), (path, length), path)
CALL_PATH(mknod, (const char *path, mode_t mode, dev_t device), (path, mode, device), path)

int bind(int fd, const struct sockaddr *address, socklen_t length) { /* a socket with a name is a file */
    REAL(int, "bind");
    const struct sockaddr_un *unix_address = (const struct sockaddr_un *)address;
    int named = address->sa_family == AF_UNIX && length > sizeof(sa_family_t) && unix_address->sun_path[0];
    int dies = named ? begin("bind", -1, unix_address->sun_path) : 0;
    return (int)end(dies, real(fd, address, length));
}

#define CHANGES(flags) ((flags) & (O_CREAT | O_TRUNC))
#define MODE \
    mode_t mode = 0; \
    if (flags & (O_CREAT | __O_TMPFILE)) { \
        va_list rest; \
        va_start(rest, flags); \
        mode = va_arg(rest, mode_t); \
        va_end(rest); \
    }
#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        REAL(int, #name); \
        MODE int dies = CHANGES(flags) ? begin(#name, -1, path) : 0; \
        return (int)end(dies, real(path, flags, mode)); \
    }
#define OPENAT(name) \
    int name(int at, const char *path, int flags, ...) { \
        REAL(int, #name); \
        MODE int dies = CHANGES(flags) ? begin(#name, -1, path) : 0; \
        return (int)end(dies, real(at, path, flags, mode)); \
    }

OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

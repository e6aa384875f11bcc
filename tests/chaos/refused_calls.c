/* Refuses system calls of a process and its children, as a disk or a file system would; preloaded by tests/refused_calls.py.
 *
 * REFUSED_CALLS names a file with one line: errno, call (open, write, fsync, rename), first path, pattern of paths. It is read at each
 * call, so that a test changes what a running process meets. With errno 0 nothing is refused. Each call below the first path is appended
 * to <file>.log: "refused" or "passed", the call, the path. With REFUSED_CALLS_OF_FOLDERS also create, remove, list and stat are calls.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static __thread int inside;
static char *control;
static int of_folders;

/* Once: other threads may change the environment while this one reads it. */
__attribute__((constructor)) static void find_control(void) {
    const char *name = getenv("REFUSED_CALLS");
    if (name != NULL) control = strdup(name);
    of_folders = getenv("REFUSED_CALLS_OF_FOLDERS") != NULL;
}

/* The errno with which to refuse a call, or 0. Uses system calls only, which are not intercepted. */
static int refused(const char *call, const char *path) {
    if (control == NULL || path == NULL || path[0] != '/' || inside) return 0;
    int saved = errno, number = 0;
    char text[3 * PATH_MAX], wanted[16], root[PATH_MAX], pattern[PATH_MAX], line[PATH_MAX + 64];
    inside = 1;
    int file = (int)syscall(SYS_openat, AT_FDCWD, control, O_RDONLY | O_CLOEXEC, 0);
    ssize_t size = file < 0 ? -1 : syscall(SYS_read, file, text, sizeof text - 1);
    if (file >= 0) syscall(SYS_close, file);
    if (size > 0) {
        text[size] = 0;
        if (sscanf(text, "%d %15s %4095s %4095s", &number, wanted, root, pattern) != 4) number = 0;
        else if (strncmp(path, root, strlen(root)) != 0) number = 0;
        else {
            if (strcmp(call, wanted) != 0 || fnmatch(pattern, path, 0) != 0) number = 0;
            char log[PATH_MAX];
            snprintf(log, sizeof log, "%s.log", control);
            int length = snprintf(line, sizeof line, "%s %s %s\n", number ? "refused" : "passed", call, path);
            int out = (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
            if (out >= 0) { syscall(SYS_write, out, line, length); syscall(SYS_close, out); }
        }
    }
    inside = 0;
    errno = number ? number : saved;
    return number;
}

static int refused_fd(const char *call, int fd) {
    char link[64], path[PATH_MAX];
    if (inside || fd < 3) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = syscall(SYS_readlinkat, AT_FDCWD, link, path, sizeof path - 1);
    if (size <= 0) return 0;
    path[size] = 0;
    return refused(call, path);
}

/* The absolute path of a name relative to a folder that is open. */
static const char *at(int folder, const char *name, char *buffer) {
    char link[64];
    if (name == NULL || name[0] == '/') return name;
    if (folder == AT_FDCWD) { if (getcwd(buffer, PATH_MAX) == NULL) return NULL; }
    else {
        snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
        ssize_t size = syscall(SYS_readlinkat, AT_FDCWD, link, buffer, PATH_MAX - 1);
        if (size <= 0) return NULL;
        buffer[size] = 0;
    }
    size_t length = strlen(buffer);
    snprintf(buffer + length, PATH_MAX - length, "/%s", name);
    return buffer;
}

#define REAL(result, name, ...) \
    static result (*real)(__VA_ARGS__); \
    if (real == NULL) real = (result (*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)

#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        REAL(int, name, const char *, int, ...); \
        char buffer[PATH_MAX]; mode_t mode = 0; va_list rest; \
        va_start(rest, flags); if (flags & (O_CREAT | O_TMPFILE)) mode = va_arg(rest, mode_t); va_end(rest); \
        return refused("open", at(AT_FDCWD, path, buffer)) ? -1 : real(path, flags, mode); \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name) \
    int name(int folder, const char *path, int flags, ...) { \
        REAL(int, name, int, const char *, int, ...); \
        char buffer[PATH_MAX]; mode_t mode = 0; va_list rest; \
        va_start(rest, flags); if (flags & (O_CREAT | O_TMPFILE)) mode = va_arg(rest, mode_t); va_end(rest); \
        return refused("open", at(folder, path, buffer)) ? -1 : real(folder, path, flags, mode); \
    }
OPENAT(openat)
OPENAT(openat64)

#define FOPEN(name) \
    FILE *name(const char *path, const char *mode) { \
        REAL(FILE *, name, const char *, const char *); \
        char buffer[PATH_MAX]; \
        return refused("open", at(AT_FDCWD, path, buffer)) ? NULL : real(path, mode); \
    }
FOPEN(fopen)
FOPEN(fopen64)

ssize_t write(int fd, const void *data, size_t size) {
    REAL(ssize_t, write, int, const void *, size_t);
    return refused_fd("write", fd) ? -1 : real(fd, data, size);
}
ssize_t writev(int fd, const struct iovec *parts, int count) {
    REAL(ssize_t, writev, int, const struct iovec *, int);
    return refused_fd("write", fd) ? -1 : real(fd, parts, count);
}
ssize_t pwrite(int fd, const void *data, size_t size, off_t offset) {
    REAL(ssize_t, pwrite, int, const void *, size_t, off_t);
    return refused_fd("write", fd) ? -1 : real(fd, data, size, offset);
}
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t offset) {
    REAL(ssize_t, pwrite64, int, const void *, size_t, off64_t);
    return refused_fd("write", fd) ? -1 : real(fd, data, size, offset);
}
int fsync(int fd) {
    REAL(int, fsync, int);
    return refused_fd("fsync", fd) ? -1 : real(fd);
}
int fdatasync(int fd) {
    REAL(int, fdatasync, int);
    return refused_fd("fsync", fd) ? -1 : real(fd);
}

/* A hard link gives a file its final name, as a rename does, if nothing has the name yet. */
static int refused_names(int from_folder, const char *from, int to_folder, const char *to) {
    char buffer[PATH_MAX];
    return refused("rename", at(to_folder, to, buffer)) || refused("rename", at(from_folder, from, buffer));
}
int rename(const char *from, const char *to) {
    REAL(int, rename, const char *, const char *);
    return refused_names(AT_FDCWD, from, AT_FDCWD, to) ? -1 : real(from, to);
}
int link(const char *from, const char *to) {
    REAL(int, link, const char *, const char *);
    return refused_names(AT_FDCWD, from, AT_FDCWD, to) ? -1 : real(from, to);
}
int renameat(int a, const char *from, int b, const char *to) {
    REAL(int, renameat, int, const char *, int, const char *);
    return refused_names(a, from, b, to) ? -1 : real(a, from, b, to);
}
int renameat2(int a, const char *from, int b, const char *to, unsigned int flags) {
    REAL(int, renameat2, int, const char *, int, const char *, unsigned int);
    return refused_names(a, from, b, to) ? -1 : real(a, from, b, to, flags);
}
int linkat(int a, const char *from, int b, const char *to, int flags) {
    REAL(int, linkat, int, const char *, int, const char *, int);
    return refused_names(a, from, b, to) ? -1 : real(a, from, b, to, flags);
}

/* Calls on folders, and on names; most tests have no need of them. */
static int refused_name(const char *call, int folder, const char *name) {
    char buffer[PATH_MAX];
    return of_folders && refused(call, at(folder, name, buffer));
}
int mkdir(const char *path, mode_t mode) {
    REAL(int, mkdir, const char *, mode_t);
    return refused_name("create", AT_FDCWD, path) ? -1 : real(path, mode);
}
int rmdir(const char *path) {
    REAL(int, rmdir, const char *);
    return refused_name("remove", AT_FDCWD, path) ? -1 : real(path);
}
int unlink(const char *path) {
    REAL(int, unlink, const char *);
    return refused_name("remove", AT_FDCWD, path) ? -1 : real(path);
}
int unlinkat(int folder, const char *path, int flags) {
    REAL(int, unlinkat, int, const char *, int);
    return refused_name("remove", folder, path) ? -1 : real(folder, path, flags);
}
DIR *opendir(const char *path) {
    REAL(DIR *, opendir, const char *);
    return refused_name("list", AT_FDCWD, path) ? NULL : real(path);
}
DIR *fdopendir(int fd) {
    REAL(DIR *, fdopendir, int);
    return of_folders && refused_fd("list", fd) ? NULL : real(fd);
}

struct stat64;
int stat64(const char *path, struct stat64 *status) {
    REAL(int, stat64, const char *, struct stat64 *);
    return refused_name("stat", AT_FDCWD, path) ? -1 : real(path, status);
}
int fstatat64(int folder, const char *path, struct stat64 *status, int flags) {
    REAL(int, fstatat64, int, const char *, struct stat64 *, int);
    return refused_name("stat", folder, path) ? -1 : real(folder, path, status, flags);
}

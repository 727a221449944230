/* Preloaded into a program: while the file that QUOTA_USED_UP names exists, no regular file takes a byte, as on a disk on
   which the user's quota is used up. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static int used_up(int fd) {
    const char *flag = getenv("QUOTA_USED_UP");
    struct stat file;
    int is_file = fstat(fd, &file) == 0 && S_ISREG(file.st_mode);
    if (!flag || !is_file || access(flag, F_OK) != 0) return 0;
    errno = EDQUOT;
    return 1;
}

ssize_t write(int fd, const void *bytes, size_t size) {
    return used_up(fd) ? -1 : syscall(SYS_write, fd, bytes, size);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    return used_up(fd) ? -1 : syscall(SYS_writev, fd, parts, count);
}

ssize_t pwrite(int fd, const void *bytes, size_t size, off_t at) {
    return used_up(fd) ? -1 : syscall(SYS_pwrite64, fd, bytes, size, at);
}

ssize_t pwrite64(int fd, const void *bytes, size_t size, off_t at) {
    return pwrite(fd, bytes, size, at);
}

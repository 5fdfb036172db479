/*
 * A preload that ends its process with SIGKILL at its n-th call that changes a database file: DAYBOOK_SHIM_FILE and the
 * files whose names begin with it. DAYBOOK_SHIM_AT is n. With DAYBOOK_SHIM_TORN a write is torn: its first half is done.
 * What the call was goes to stderr.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *prefix = NULL;
static int torn = 0;
static long left = 0;

__attribute__((constructor)) static void begin(void) {
  const char *at = getenv("DAYBOOK_SHIM_AT");
  prefix = getenv("DAYBOOK_SHIM_FILE");
  torn = getenv("DAYBOOK_SHIM_TORN") != NULL;
  left = at == NULL ? 0 : atol(at);
  unsetenv("LD_PRELOAD"); /* its children are none of this */
}

static int isOurs(const char *path) { return prefix != NULL && strncmp(path, prefix, strlen(prefix)) == 0; }

static int isOursOpen(int fd) {
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return isOurs(path);
}

/* Whether this call is the one. */
static int isDue(void) { return left > 0 && __atomic_sub_fetch(&left, 1, __ATOMIC_SEQ_CST) == 0; }

static void die(const char *call) {
  dprintf(2, "killed in %s\n", call);
  kill(getpid(), SIGKILL);
  for (;;) pause();
}

#define DIE_IF_DUE(ours, call) if ((ours) && isDue()) die(call)

ssize_t pwrite64(int fd, const void *buffer, size_t size, off_t offset) {
  if (isOursOpen(fd) && isDue()) {
    if (torn) syscall(SYS_pwrite64, fd, buffer, size / 2, offset);
    die("write");
  }
  return syscall(SYS_pwrite64, fd, buffer, size, offset);
}
ssize_t pwrite(int fd, const void *buffer, size_t size, off_t offset) { return pwrite64(fd, buffer, size, offset); }

ssize_t write(int fd, const void *buffer, size_t size) {
  if (isOursOpen(fd) && isDue()) {
    if (torn) syscall(SYS_write, fd, buffer, size / 2);
    die("write");
  }
  return syscall(SYS_write, fd, buffer, size);
}

int fsync(int fd) { DIE_IF_DUE(isOursOpen(fd), "sync"); return syscall(SYS_fsync, fd); }
int fdatasync(int fd) { DIE_IF_DUE(isOursOpen(fd), "sync"); return syscall(SYS_fdatasync, fd); }
int ftruncate64(int fd, off_t size) { DIE_IF_DUE(isOursOpen(fd), "truncate"); return syscall(SYS_ftruncate, fd, size); }
int ftruncate(int fd, off_t size) { return ftruncate64(fd, size); }
int unlink(const char *path) { DIE_IF_DUE(isOurs(path), "unlink"); return syscall(SYS_unlink, path); }
int rename(const char *from, const char *to) {
  DIE_IF_DUE(isOurs(from) || isOurs(to), "rename");
  return syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

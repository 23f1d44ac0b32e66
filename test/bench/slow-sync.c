/* Makes each sync take SYNC_DELAY_MS longer, as on a slower disk. Loaded before a program by LD_PRELOAD. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static void delay(void) { usleep(atoi(getenv("SYNC_DELAY_MS")) * 1000); }

int fsync(int fd) {
  int result = ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(fd);
  delay();
  return result;
}

int fdatasync(int fd) {
  int result = ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(fd);
  delay();
  return result;
}

/* A write to a file that was opened with O_DSYNC waits for the disk, too. */
ssize_t write(int fd, const void *bytes, size_t count) {
  static ssize_t (*real)(int, const void *, size_t);
  if (real == NULL) real = dlsym(RTLD_NEXT, "write");
  ssize_t result = real(fd, bytes, count);
  if (fcntl(fd, F_GETFL) & O_DSYNC) delay();
  return result;
}

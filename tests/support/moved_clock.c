/* Preloaded into a process: its wall clock differs from the machine's by as many seconds as the
   file that EKIDEN_TEST_CLOCK names says, from one moment to the next. Clocks that nobody can set
   are left alone, except that with EKIDEN_TEST_CLOCK_BOOT the time since the machine started moves
   as well, as if that much time had really passed. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *seconds;
static int boot_moves;

__attribute__((constructor)) static void open_it(void) {
  const char *name = getenv("EKIDEN_TEST_CLOCK");
  boot_moves = getenv("EKIDEN_TEST_CLOCK_BOOT") != NULL;
  int file = name ? open(name, O_RDONLY) : -1;
  if (file < 0) return;
  void *page = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
  close(file);
  if (page != MAP_FAILED) seconds = page;
}

static int64_t moved(void) { return seconds ? *seconds : 0; }

int clock_gettime(clockid_t clock, struct timespec *at) {
  static int (*real)(clockid_t, struct timespec *);
  if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
  int failed = real(clock, at);
  int moves = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE ||
              (boot_moves && clock == CLOCK_BOOTTIME);
  if (!failed && moves) at->tv_sec += moved();
  return failed;
}

int gettimeofday(struct timeval *at, void *zone) {
  static int (*real)(struct timeval *, void *);
  if (!real) real = dlsym(RTLD_NEXT, "gettimeofday");
  int failed = real(at, zone);
  if (!failed) at->tv_sec += moved();
  return failed;
}

time_t time(time_t *at) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (at) *at = now.tv_sec;
  return now.tv_sec;
}

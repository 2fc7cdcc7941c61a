/* LD_PRELOAD library for clock_test.py: CLOCK_REALTIME, and only that, is off by the number of
 * seconds in the file WALL_CLOCK_SHIFT_FILE (eight bytes, may change at any time). Deadlines that a
 * program computed from the shifted clock are shifted back where it waits for them.
 * With SHIFT_BOOT_CLOCK in the environment it is CLOCK_BOOTTIME instead, and only that: a step forward
 * is what a program sees after the machine was suspended. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* Smaller values of a deadline count from boot. */
#define WALL_CLOCK_MIN 1000000000

static volatile const int64_t *shift;
static int boot; /* shift the boot clock instead of the wall clock */

__attribute__((constructor)) static void Open(void) {
  const char *path = getenv("WALL_CLOCK_SHIFT_FILE");
  const int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
  void *page = file < 0 ? MAP_FAILED : mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
  if (page == MAP_FAILED) {
    abort();
  }
  boot = getenv("SHIFT_BOOT_CLOCK") != NULL;
  shift = page;
}

static int64_t Shift(clockid_t clock) {
  return shift == NULL || clock != (boot ? CLOCK_BOOTTIME : CLOCK_REALTIME) ? 0 : *shift;
}

static struct timespec Back(const struct timespec *deadline) {
  struct timespec real = *deadline;
  if (real.tv_sec > WALL_CLOCK_MIN) {
    real.tv_sec -= Shift(CLOCK_REALTIME);
  }
  return real;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  static int (*next)(clockid_t, struct timespec *);
  if (next == NULL) {
    next = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
  }
  const int result = next(clock, now);
  if (result == 0) {
    now->tv_sec += Shift(clock);
  }
  return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  struct timespec real;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &real);
  now->tv_sec = real.tv_sec;
  now->tv_usec = real.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *out) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (out != NULL) {
    *out = now.tv_sec;
  }
  return now.tv_sec;
}

int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                           const struct timespec *deadline) {
  static int (*next)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
  if (next == NULL) {
    next = (int (*)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *))dlvsym(
        RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
  }
  const struct timespec real = Back(deadline);
  return next(condition, mutex, &real);
}

/* Abseil waits on futexes itself. */
long syscall(long number, ...) {
  static long (*next)(long, ...);
  if (next == NULL) {
    next = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
  }
  long words[6];
  va_list list;
  va_start(list, number);
  for (int i = 0; i < 6; ++i) {
    words[i] = va_arg(list, long);
  }
  va_end(list);
  struct timespec real;
  if (number == SYS_futex && (words[1] & FUTEX_CLOCK_REALTIME) != 0 && words[3] != 0) {
    real = Back((const struct timespec *)words[3]);
    words[3] = (long)&real;
  }
  return next(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}

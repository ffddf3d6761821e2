/* Functions that the C library of the build machine has and that of an old system lacks, by functions that both have.
 *
 * `packaging/tarball` links the program with the libraries of glibc 2.27. The objects were compiled with the headers of
 * the build machine, which name functions that are newer. `stat` and its relatives are in the old libc_nonshared.a. A
 * name that is missing here is an undefined symbol when the program is linked. The functions are hidden, so that shared
 * libraries keep using their own.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#define HIDDEN __attribute__((visibility("hidden")))

/* 2.30 */
HIDDEN pid_t gettid(void) { return (pid_t)syscall(SYS_gettid); }

/* 2.32: never single-threaded, so shared pointers always count with atomic instructions. */
HIDDEN char __libc_single_threaded = 0;

/* 2.36: libstdc++'s random_device. */
HIDDEN uint32_t arc4random(void) {
  uint32_t number;
  while (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number)
    if (errno != EINTR) abort();
  return number;
}

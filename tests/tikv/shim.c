/* Preloaded into a server by tests (LD_PRELOAD):
 *   NAGI_TEST_PORTS=FROM:TO,...  connections to these ports of IPv4 go to others, of a proxy
 *   NAGI_TEST_CLOCK=FILE         the file has 8 bytes: how many milliseconds the clock is ahead, as a signed number
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define PORTS_MAX 32

static int (*real_connect)(int, const struct sockaddr *, socklen_t);
static int (*real_gettime)(clockid_t, struct timespec *);
static uint16_t from[PORTS_MAX], to[PORTS_MAX];
static int ports;
static volatile const int64_t *ahead_ms;

__attribute__((constructor)) static void start(void) {
  real_connect = dlsym(RTLD_NEXT, "connect");
  real_gettime = dlsym(RTLD_NEXT, "clock_gettime");
  const char *map = getenv("NAGI_TEST_PORTS"), *clock = getenv("NAGI_TEST_CLOCK");
  while (map && *map && ports < PORTS_MAX) {
    char *end;
    from[ports] = strtol(map, &end, 10);
    to[ports++] = strtol(end + 1, &end, 10);
    map = *end ? end + 1 : end;
  }
  if (clock) {
    int file = open(clock, O_RDONLY);
    void *shared = file < 0 ? MAP_FAILED : mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
    if (file >= 0) close(file);
    if (shared != MAP_FAILED) ahead_ms = shared;
  }
}

int connect(int socket, const struct sockaddr *address, socklen_t length) {
  struct sockaddr_in other;
  if (address->sa_family == AF_INET && length >= sizeof other) {
    memcpy(&other, address, sizeof other);
    for (int n = 0; n < ports; n++) {
      if (ntohs(other.sin_port) == from[n]) {
        other.sin_port = htons(to[n]);
        return real_connect(socket, (struct sockaddr *)&other, sizeof other);
      }
    }
  }
  return real_connect(socket, address, length);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  int status = real_gettime ? real_gettime(clock, now) : -1;
  if (status == 0 && ahead_ms && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
    int64_t ms = *ahead_ms, ns = now->tv_nsec + ms % 1000 * 1000000;
    now->tv_sec += ms / 1000 + (ns < 0 ? -1 : ns / 1000000000);
    now->tv_nsec = ns < 0 ? ns + 1000000000 : ns % 1000000000;
  }
  return status;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  (void)zone;
  struct timespec exact;
  int status = clock_gettime(CLOCK_REALTIME, &exact);
  now->tv_sec = exact.tv_sec, now->tv_usec = exact.tv_nsec / 1000;
  return status;
}

time_t time(time_t *out) {
  struct timespec exact;
  clock_gettime(CLOCK_REALTIME, &exact);
  if (out) *out = exact.tv_sec;
  return exact.tv_sec;
}

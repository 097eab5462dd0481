#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* Preloaded, it lets the application's threads go on late after librdkafka has unlocked something for
 * them, as if another process had their core. librdkafka's own threads, rdk:..., go on at once. At
 * the end it says how often. */

#define OFTEN 4
#define MICROSECONDS 4000

static int late;

static void maybe_sleep(void *caller) {
    char name[16] = "";
    Dl_info of;
    prctl(PR_GET_NAME, name);
    if (strncmp(name, "rdk:", 4) == 0 || rand() % OFTEN != 0) return;
    if (!dladdr(caller, &of) || !of.dli_fname || !strstr(of.dli_fname, "rdkafka")) return;
    __atomic_add_fetch(&late, 1, __ATOMIC_RELAXED);
    usleep(MICROSECONDS);
}

__attribute__((destructor)) static void tell(void) { fprintf(stderr, "late: %d\n", late); }

#define LATE(unlock, type)                                        \
    int unlock(type *lock) {                                      \
        static int (*real)(type *);                               \
        if (!real) real = (int (*)(type *))dlsym(RTLD_NEXT, #unlock); \
        int result = real(lock);                                  \
        maybe_sleep(__builtin_return_address(0));                 \
        return result;                                            \
    }

LATE(pthread_mutex_unlock, pthread_mutex_t)
LATE(pthread_rwlock_unlock, pthread_rwlock_t)

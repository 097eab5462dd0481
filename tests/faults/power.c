/* What a loss of power would leave of files: preloaded, it notes in SYNCED_FILE for each file, by its
   inode, how long it was when it was last told to be on the disk ("S"), and what it was cut to ("T").
   Files that are mapped, as Kafka's indexes are, are not followed. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static void note(char what, int file, off_t length)
{
    static volatile int journal = -1;
    struct stat seen;
    char line[64];
    if (fstat(file, &seen) || !S_ISREG(seen.st_mode))
        return;
    if (journal < 0)
        journal = open(getenv("SYNCED_FILE"), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    if (length < 0)
        length = seen.st_size;
    int size = snprintf(line, sizeof line, "%c %llu %lld\n", what,
                        (unsigned long long)seen.st_ino, (long long)length);
    if (write(journal, line, size) != size)
        abort();
}

static off_t length_of(int file)
{
    struct stat seen;
    return fstat(file, &seen) ? -1 : seen.st_size;
}

/* What is written while the disk is waited for may be there or not: the length is that of before. */
#define SYNC(name)                                                  \
    int name(int file)                                              \
    {                                                               \
        static int (*real)(int);                                    \
        if (!real)                                                  \
            real = (int (*)(int))dlsym(RTLD_NEXT, #name);           \
        off_t length = length_of(file);                             \
        int failed = real(file);                                    \
        if (!failed)                                                \
            note('S', file, length);                                \
        return failed;                                              \
    }

SYNC(fsync)
SYNC(fdatasync)

#define CUT(name, type)                                             \
    int name(int file, type length)                                 \
    {                                                               \
        static int (*real)(int, type);                              \
        if (!real)                                                  \
            real = (int (*)(int, type))dlsym(RTLD_NEXT, #name);     \
        int failed = real(file, length);                            \
        if (!failed)                                                \
            note('T', file, length);                                \
        return failed;                                              \
    }

CUT(ftruncate, off_t)
CUT(ftruncate64, off64_t)

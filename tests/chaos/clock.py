"""A clock that jumps: a small library, loaded into all processes of a job, adds what a file says to the wall clock.

Java, Python and Spark's Python workers then see one clock. The machine's own clock stays as it is, and so do the clocks
that only measure durations.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile long *ahead;

__attribute__((constructor)) static void begin(void) {
    const char *name = getenv("CHAOS_CLOCK");
    int file = name ? open(name, O_RDONLY) : -1;
    if (file < 0) return;
    void *page = mmap(0, sizeof(long), PROT_READ, MAP_SHARED, file, 0);
    if (page != MAP_FAILED) ahead = page;
    close(file);
}

int clock_gettime(clockid_t id, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int code = real(id, now);
    if (ahead && !code && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) now->tv_sec += *ahead;
    return code;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec seen;
    int code = clock_gettime(CLOCK_REALTIME, &seen);
    now->tv_sec = seen.tv_sec;
    now->tv_usec = seen.tv_nsec / 1000;
    return code;
}

time_t time(time_t *now) {
    struct timespec seen;
    clock_gettime(CLOCK_REALTIME, &seen);
    if (now) *now = seen.tv_sec;
    return seen.tv_sec;
}
"""


def can_build() -> bool:
    return shutil.which("cc") is not None


class JumpingClock:
    """Builds the library in a folder, and says by how much the clock is wrong."""

    def __init__(self, folder: Path) -> None:
        self.file, library = folder / "clock", folder / "clock.so"
        self.jump(0)
        source = folder / "clock.c"
        source.write_text(SOURCE)
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"], check=True)
        self.environment = {"LD_PRELOAD": str(library), "CHAOS_CLOCK": str(self.file)}

    def jump(self, seconds: int) -> None:
        """Set how far the clock is ahead; below 0, how far behind."""
        with self.file.open("r+b" if self.file.exists() else "w+b") as file:
            file.write(struct.pack("l", seconds))

"""A C program with a network inside, and how it is compiled."""

from __future__ import annotations

PROGRAM = """
#include <stdio.h>
#include "net.h"

static _Alignas(NET_ALIGNMENT) unsigned char arena[NET_ARENA_SIZE];
static float image[NET_X0_ELEMENTS], scores[NET_Y0_ELEMENTS];

int main(void) {
    while (fread(image, 1, NET_X0_SIZE, stdin) == NET_X0_SIZE) {
        if (net_run(arena, image, scores)) return 1;
        fwrite(scores, 1, NET_Y0_SIZE, stdout);
    }
    return 0;
}
"""
WARNINGS = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]

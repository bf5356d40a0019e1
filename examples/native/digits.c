/* Reads images of handwritten digits from standard input, 28 x 28 floats from 0 to 1 each, and prints for every one
   which digit it is and how sure the network is. The network is digits.o; digits.h says how it is called.

       digits [THREADS] < images.f32
*/
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "digits.h"

enum { MOST_THREADS = 16 };

/* A run works in this memory; nothing else is ever allocated. */
static _Alignas(DIGITS_ALIGNMENT) unsigned char arena[DIGITS_ARENA_SIZE];
static _Alignas(DIGITS_ALIGNMENT) unsigned char sync[DIGITS_SYNC_SIZE];
static float image[DIGITS_IMAGE_ELEMENTS];
static float probabilities[DIGITS_PROBABILITIES_ELEMENTS];

static int threads = 1;

/* One of the threads that share the work of a run: it is told its number. */
static void *work(void *number) {
    long thread = (long)(intptr_t)number;
    int status = digits_run_thread(thread, threads, sync, arena, image, probabilities);
    return (void *)(intptr_t)status;
}

static int run(void) {
    if (threads == 1) return digits_run(arena, image, probabilities);
    pthread_t others[MOST_THREADS];
    for (long n = 1; n < threads; n++)
        if (pthread_create(&others[n], NULL, work, (void *)(intptr_t)n)) {
            perror("pthread_create");
            exit(1); /* those that were started wait for one that will not come */
        }
    void *status = work((void *)(intptr_t)0);
    for (int n = 1; n < threads; n++) pthread_join(others[n], NULL);
    return (int)(intptr_t)status;
}

int main(int count, char **arguments) {
    if (count > 1) threads = atoi(arguments[1]);
    if (threads < 1 || threads > MOST_THREADS) {
        fprintf(stderr, "digits: found %d threads, expected 1 to %d\n", threads, MOST_THREADS);
        return 2;
    }
    while (fread(image, sizeof *image, DIGITS_IMAGE_ELEMENTS, stdin) == DIGITS_IMAGE_ELEMENTS) {
        if (run()) return 1;
        int best = 0;
        for (int digit = 1; digit < DIGITS_PROBABILITIES_ELEMENTS; digit++)
            if (probabilities[digit] > probabilities[best]) best = digit;
        printf("%d %.6f\n", best, probabilities[best]);
    }
    return 0;
}

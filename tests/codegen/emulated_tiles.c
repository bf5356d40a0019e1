/* Tile registers as functions, for processors without them: Intel's definitions of the instructions, element by element.
   A thread has its own registers, as on the processor. */
#include <stdint.h>
#include <string.h>

typedef struct {
  int rows, bytes;
  uint8_t held[16][64];
} Tile;

static _Thread_local Tile tiles[8];

void configure(const uint8_t *layout) __asm__("emulated.llvm.x86.ldtilecfg");
void release(void) __asm__("emulated.llvm.x86.tilerelease");
void load(int8_t number, const uint8_t *from, int64_t stride) __asm__("emulated.llvm.x86.tileloadd64");
void store(int8_t number, uint8_t *to, int64_t stride) __asm__("emulated.llvm.x86.tilestored64");
void multiply(int8_t sums, int8_t left, int8_t right) __asm__("emulated.llvm.x86.tdpbusd");

void configure(const uint8_t *layout) {
  memset(tiles, 0, sizeof tiles);
  for (int n = 0; n < 8; n++) {
    tiles[n].bytes = layout[16 + 2 * n] | layout[17 + 2 * n] << 8;
    tiles[n].rows = layout[48 + n];
  }
}

void release(void) { memset(tiles, 0, sizeof tiles); }

void load(int8_t number, const uint8_t *from, int64_t stride) {
  Tile *tile = &tiles[number];
  memset(tile->held, 0, sizeof tile->held);
  for (int row = 0; row < tile->rows; row++) memcpy(tile->held[row], from + row * stride, tile->bytes);
}

void store(int8_t number, uint8_t *to, int64_t stride) {
  const Tile *tile = &tiles[number];
  for (int row = 0; row < tile->rows; row++) memcpy(to + row * stride, tile->held[row], tile->bytes);
}

void multiply(int8_t sums, int8_t left, int8_t right) {
  Tile *c = &tiles[sums];
  const Tile *a = &tiles[left], *b = &tiles[right];
  for (int m = 0; m < c->rows; m++)
    for (int n = 0; n < c->bytes / 4; n++) {
      uint32_t sum;
      memcpy(&sum, &c->held[m][4 * n], 4);
      for (int k = 0; k < a->bytes; k++) sum += a->held[m][k] * (int8_t)b->held[k / 4][4 * n + k % 4];
      memcpy(&c->held[m][4 * n], &sum, 4);
    }
}

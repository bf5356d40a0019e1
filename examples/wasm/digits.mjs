// The network of digits.wasm for JavaScript, in Node.js and in a browser.

/** Returns a function from 784 pixels (0 to 1, row by row) to 10 probabilities.
 *  `bytes`: digits.wasm. `header`: the text of digits.h, which has the sizes. */
export async function load(bytes, header) {
  const size = (name) => Number(header.match(new RegExp(`#define DIGITS_${name} (\\d+)`))[1]);
  // The code's only import: what a thread does while it waits for others. Here is one thread.
  const { instance } = await WebAssembly.instantiate(bytes, { env: { sched_yield: () => 0 } });
  const { memory, digits_run, __heap_base } = instance.exports;
  const alignment = size("ALIGNMENT");
  const arena = Math.ceil(__heap_base.value / alignment) * alignment;
  const image = arena + size("ARENA_SIZE");
  const probabilities = image + size("IMAGE_SIZE");
  const missing = probabilities + size("PROBABILITIES_SIZE") - memory.buffer.byteLength;
  if (missing > 0) memory.grow(Math.ceil(missing / 65536));
  return (pixels) => {
    new Float32Array(memory.buffer, image, size("IMAGE_ELEMENTS")).set(pixels);
    if (digits_run(arena, image, probabilities) !== 0) throw new Error("digits_run refused its pointers");
    return new Float32Array(memory.buffer, probabilities, size("PROBABILITIES_ELEMENTS")).slice();
  };
}

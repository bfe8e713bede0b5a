// What bundled test files import as tap: `t` is the root test of the file that this process runs (test-worker.mjs).
let current;
export { current as default };

export const setRoot = (root) => (current = root);

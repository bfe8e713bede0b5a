/** Something that an administrator has to put right before the program can start. `main` prints the message without a stack. */
export class StartupError extends Error {
  override readonly name: string = "StartupError";
}

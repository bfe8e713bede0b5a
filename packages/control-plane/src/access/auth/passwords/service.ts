export { purgeAttempts, recordAttempt, type Attempt, type Caller, withAttemptRecorded } from "./attempts.ts";
export { givePassword, hashNewPassword, removePassword, setPassword, withPlace } from "./password.ts";
export { hashPassword, verifyPassword } from "./passwords.ts";

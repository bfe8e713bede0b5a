export {
  confirmAddress,
  pendingVerification,
  purgeVerifications,
  resendVerification,
  sendVerificationMail,
  subscribedAddress,
  unsubscribe,
} from "./verification.ts";

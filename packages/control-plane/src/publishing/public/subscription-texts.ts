import type { Language } from "./texts.ts";

const en = {
  subscribe: "Subscribe to updates",
  intro: "Get a message when an incident opens, is updated or ends, and about planned maintenance.",
  email: "Email address",
  byMail: "By email",
  webhook: "Webhook URL",
  byWebhook: "By webhook",
  webhookHint: "An https address. It is sent a challenge that its answer has to repeat, and a secret for signatures.",
  components: "Components",
  all: "All components",
  some: "Only these:",
  send: "Subscribe",
  sent: "Check your inbox",
  sentText:
    "If the address is not subscribed yet, a link to confirm is on its way. A webhook is sent its " +
    "challenge within seconds.",
  limit: "Too many requests from your network. Try again in an hour.",
  input: "That did not work. Enter a valid email address, or an https URL that is reachable from the internet.",
  noMail: "Email is not available on this page.",
  confirmTitle: "Confirm your subscription",
  confirm: "Confirm subscription",
  confirmText: (address: string) => `${address} will be sent updates of this page.`,
  manageTitle: "Your subscription",
  manageText: (address: string) => `${address} is sent updates of this page.`,
  save: "Save",
  saved: "Saved.",
  unsubscribe: "Unsubscribe",
  unsubscribeText: "Nothing more is sent, and the address is deleted.",
  ended: "Unsubscribed",
  endedText: "Nothing more is sent. The address has been deleted.",
  invalid: "Link not valid",
  invalidText: "It is not valid, or the subscription has ended.",
};
type SubscriptionTexts = typeof en;

const de: SubscriptionTexts = {
  subscribe: "Updates abonnieren",
  intro: "Nachricht bei Beginn, Updates und Ende einer Störung und bei geplanten Wartungen.",
  email: "E-Mail-Adresse",
  byMail: "Per E-Mail",
  webhook: "Webhook-URL",
  byWebhook: "Per Webhook",
  webhookHint:
    "Eine https-Adresse. Sie erhält eine Challenge, die ihre Antwort wiederholen muss, und ein Geheimnis " +
    "für Signaturen.",
  components: "Komponenten",
  all: "Alle Komponenten",
  some: "Nur diese:",
  send: "Abonnieren",
  sent: "Sehen Sie in Ihr Postfach",
  sentText:
    "Falls die Adresse noch nicht abonniert ist, ist ein Link zum Bestätigen unterwegs. Ein Webhook " +
    "erhält seine Challenge in Sekunden.",
  limit: "Zu viele Anfragen aus Ihrem Netz. Versuchen Sie es in einer Stunde wieder.",
  input: "Das ging nicht. Geben Sie eine gültige E-Mail-Adresse oder eine aus dem Internet erreichbare https-URL ein.",
  noMail: "E-Mail ist auf dieser Seite nicht verfügbar.",
  confirmTitle: "Abonnement bestätigen",
  confirm: "Abonnement bestätigen",
  confirmText: (address: string) => `${address} erhält Updates dieser Seite.`,
  manageTitle: "Ihr Abonnement",
  manageText: (address: string) => `${address} erhält Updates dieser Seite.`,
  save: "Speichern",
  saved: "Gespeichert.",
  unsubscribe: "Abbestellen",
  unsubscribeText: "Es wird nichts mehr gesendet, und die Adresse wird gelöscht.",
  ended: "Abbestellt",
  endedText: "Es wird nichts mehr gesendet. Die Adresse wurde gelöscht.",
  invalid: "Link ungültig",
  invalidText: "Er ist ungültig, oder das Abonnement ist beendet.",
};

export const subscriptionTexts = (language: Language): SubscriptionTexts => (language === "de" ? de : en);

import type { Language } from "./texts.ts";

const en = {
  heading: "This page is private",
  intro: "Enter the password to read it.",
  password: "Password",
  open: "Open page",
  wrong: "The password is wrong. Check it and try again.",
  limit: "Too many wrong passwords. Try again in a minute.",
};
export type AccessTexts = typeof en;

const de: AccessTexts = {
  heading: "Diese Seite ist nicht öffentlich",
  intro: "Geben Sie das Passwort ein, um sie zu lesen.",
  password: "Passwort",
  open: "Seite öffnen",
  wrong: "Das Passwort ist falsch. Prüfen Sie es und versuchen Sie es erneut.",
  limit: "Zu viele falsche Passwörter. Versuchen Sie es in einer Minute erneut.",
};

const texts: Record<Language, AccessTexts> = { en, de };

/** Texts of the form of a private page. */
export const accessTexts = (language: Language): AccessTexts => texts[language];

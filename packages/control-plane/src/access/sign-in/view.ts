import type { Config } from "../../config/config.ts";
import { mayBePopup, secretAddress } from "../../platform/http/security-headers.ts";
import { ownCommand } from "../../platform/own-command.ts";
import { problems, type SignInProblem } from "./problem.ts";
import type { Provider } from "./provider.ts";

export interface SignInState {
  /** Where to go afterwards. */
  next: string;
  /** A link was requested just now. */
  asked: boolean;
  problem?: { error: SignInProblem; provider: Provider };
}

/** The sign-in page: a button per enabled provider, the address field for magic links, and the last error. */
export function signInView({ auth, email }: Config, { next, asked, problem }: SignInState) {
  const titles = { oidc: auth.oidc.name, google: "Google", github: "GitHub" };
  const providers = (["oidc", "google", "github"] as const)
    .filter((name) => auth.enabled_methods.includes(name))
    .map((name) => ({ name, title: titles[name] }));
  const said = problem === undefined ? null : problems[problem.error.reason];
  return {
    view: "auth/sign-in" as const,
    data: {
      next,
      command: ownCommand("bootstrap-owner"),
      asked,
      providers,
      byEmail: auth.enabled_methods.includes("magic_link"),
      sends: email.smtp_url !== "",
      problem:
        said === null
          ? null
          : { words: said.words(problem!.provider.title), email: problem!.error.email, title: problem!.provider.title },
    },
    status: said?.status ?? 200,
    headers: { ...secretAddress, ...(next.startsWith("/oauth/authorize?") ? mayBePopup : {}) },
  };
}

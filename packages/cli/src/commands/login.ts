import type { Command } from "commander";
import { connects, type ConnectionOptions, given, openApi, writeStore } from "../shell/connection.ts";
import { Failure, tell } from "../shell/output.ts";

export function define(command: Command): void {
  connects(command)
    .description(
      "Store the address of a server and a token in ~/.config/statusmesh, readable by you alone.\n\nThe token comes " +
        "from SM_TOKEN, the file of SM_TOKEN_FILE, or standard input, which leave no trace in the shell's history.",
    )
    .action(async (options: ConnectionOptions) => {
      const { url, token = await readToken() } = given(options);
      if (url === undefined) throw new Failure("no server is given. Use smctl login --url https://status.example.org");
      const { user, org } = (await (await openApi(url, token, options)).get("/api/v1/me")) as {
        user: { email: string };
        org: { name: string } | null;
      };
      const path = writeStore({ url, token });
      tell(`Signed in to ${url} as ${user.email}${org === null ? "" : ` of ${org.name}`}. Stored in ${path}.`);
    });
}

/** A line of standard input; what is typed at a terminal is not shown. */
async function readToken(): Promise<string> {
  const { stdin } = process;
  if (stdin.isTTY) {
    process.stderr.write("API token: ");
    stdin.setRawMode(true);
  }
  let text = "";
  try {
    for await (const chunk of stdin.setEncoding("utf8")) {
      text += chunk as string;
      if (text.includes("\u0003")) throw new Failure("");
      if (stdin.isTTY && ["\r", "\n", "\u0004"].some((end) => text.includes(end))) break;
    }
  } finally {
    if (stdin.isTTY) {
      stdin.setRawMode(false);
      process.stderr.write("\n");
    }
  }
  return text.replaceAll("\u0004", "").trim();
}

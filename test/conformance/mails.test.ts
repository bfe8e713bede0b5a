import { spawnSync } from "node:child_process";
import { chownSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { codeAt, stepAt } from "@statusmesh/control-plane/access/auth/second-factor/totp";
import { hour } from "@statusmesh/control-plane/testing/clock";
import { freePort } from "@statusmesh/control-plane/testing/ports";
import { asking, serveWhole, signedIn } from "@statusmesh/control-plane/testing/whole-app";
import { newOrg, openWorld } from "@statusmesh/control-plane/testing/world";
import { tempFolder } from "../harness/folder.ts";
import { startServer } from "../harness/programs.ts";
import { requires } from "../harness/requires.ts";
import { waitFor } from "../harness/wait.ts";

/* Mails about changed factors, as a mail server of Debian stores them. */

/** Starts exim, which appends every mail to a file; returns its port and what it has stored. */
async function startExim(): Promise<{ port: number; stored: () => string }> {
  const port = await freePort();
  const at = tempFolder(t, "exim");
  const config = `keep_environment =
    primary_hostname = mail.example.org
    tls_advertise_hosts =
    spool_directory = ${at}
    log_file_path = ${at}/%slog
    rfc1413_query_timeout = 0s
    host_lookup =
    acl_smtp_rcpt = accept
    begin routers
    all:
    driver = accept
    transport = file
    begin transports
    file:
    driver = appendfile
    file = ${at}/mails
    user = Debian-exim
  `;
  writeFileSync(join(at, "exim.conf"), config.replaceAll(/^ +/gm, ""));
  const id = (flag: string) => Number(spawnSync("id", [flag, "Debian-exim"], { encoding: "utf8" }).stdout);
  chownSync(at, id("-u"), id("-g"));
  const args = ["-bdf", "-C", join(at, "exim.conf"), "-oX", `127.0.0.1.${port}`, "-oP", join(at, "pid")];
  await startServer(t, ["/usr/sbin/exim4", ...args], { ports: [port] });
  const stored = () => {
    try {
      return readFileSync(join(at, "mails"), "utf8");
    } catch {
      return "";
    }
  };
  return { port, stored };
}

/** The parts of a mail by media type, without their transfer encoding. */
function partsOf(mail: string): Record<string, string> {
  const boundary = /boundary="([^"]+)"/.exec(mail)![1]!;
  const parts = mail.split(`--${boundary}`).slice(1, -1);
  return Object.fromEntries(
    parts.map((part) => {
      const [head = "", body = ""] = part.split(/\r?\n\r?\n([^]*)/);
      const text = /base64/i.test(head)
        ? Buffer.from(body, "base64").toString()
        : Buffer.from(
            body.replaceAll(/=\r?\n/g, "").replaceAll(/=([0-9A-F]{2})/g, (_, hex: string) => {
              return String.fromCharCode(Number.parseInt(hex, 16));
            }),
            "latin1",
          ).toString();
      return [/Content-Type: ([\w/]+)/i.exec(head)![1]!, text];
    }),
  );
}

if (await requires(t, "exim")) {
  const { port, stored } = await startExim();
  const world = await openWorld(t, {
    env: { SM_EMAIL__SMTP_URL: `smtp://127.0.0.1:${port}`, SM_AUTH__ENABLED_METHODS: "password,magic_link" },
  });
  const serve = await serveWhole(t, world);
  const owner = await newOrg(world.system);
  const ask = asking(serve, await signedIn(owner));
  const email = `${owner.userId}@example.org`;
  const password = "correct <b>horse</b> battery";

  t.test("each change of a factor is told in text and HTML, without a secret", async (t) => {
    let before = 0;
    const next = async (title: RegExp, secrets: readonly string[]) => {
      const mails = await waitFor(`the mail ${title}`, () => {
        const found = stored()
          .split(/^From /m)
          .slice(1);
        return found.length > before && /\r?\n--[^\n]+--\r?\n/.test(found.at(-1)!) ? found : null;
      });
      t.equal(mails.length, ++before, "one mail");
      const mail = mails.at(-1)!;
      t.match(mail, new RegExp(`^To: ${email}\\r?$`, "m"));
      const parts = partsOf(mail);
      t.strictSame(Object.keys(parts), ["text/plain", "text/html"]);
      for (const text of Object.values(parts)) {
        t.ok(title.test(text), `${title}`);
        t.match(text, /https:\/\/status\.example\.org\/settings\/account/);
        for (const secret of secrets) t.notOk(text.includes(secret), "no secret");
      }
      t.ok(parts["text/html"]!.startsWith("<!doctype html>"));
    };
    t.equal((await ask("PUT", "/api/v1/me/password", { password })).status, 204);
    await next(/A password was set for your account\. Your other sessions have ended\./, [password]);
    const { secret } = (await ask("POST", "/api/v1/me/totp")).body as { secret: string };
    const confirmed = await ask("POST", "/api/v1/me/totp/confirm", { code: codeAt(secret, stepAt(world.clock.now())) });
    const codes = confirmed.body.recovery_codes as string[];
    await next(/A second factor was set up for your account\./, [secret, ...codes]);
    world.clock.advance(hour);
    t.equal((await serve("POST", "/api/v1/sessions", { email, password, code: codes[0] })).status, 201);
    await next(/It does not work again; 9 of your recovery codes are left\./, codes);
  });
}

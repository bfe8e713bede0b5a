import { SMTPServer } from "smtp-server";
import type { Teardown } from "./database.ts";

export interface ReceivedMail {
  from: string;
  to: string[];
  /** The message with its transfer encoding taken off. */
  text: string;
  /** The message as it arrived. */
  raw: Buffer;
  /** SMTP user of the sender; null without authentication. */
  user: string | null;
}

export interface Mailbox {
  /** For email.smtp_url. */
  readonly url: string;
  readonly mails: ReceivedMail[];
  /** Refusal of the next messages; null accepts them. */
  refusal: string | null;
  /** True: it takes the next messages and ends the connection instead of saying so. */
  isCutting: boolean;
}

/** A local mail server that records messages. With `user` it requires authentication. */
export async function startMailbox(
  t: Teardown,
  { user }: { user?: { name: string; password: string } } = {},
): Promise<Mailbox> {
  const mails: ReceivedMail[] = [];
  const mailbox: Mailbox = { url: "", mails, refusal: null, isCutting: false };
  const server = new SMTPServer({
    disabledCommands: user === undefined ? ["AUTH", "STARTTLS"] : ["STARTTLS"],
    allowInsecureAuth: true,
    authOptional: user === undefined,
    onAuth: (auth, _session, done) =>
      auth.username === user?.name && auth.password === user?.password
        ? done(null, { user: auth.username })
        : done(new Error("wrong password")),
    onData(stream, session, done) {
      const chunks: Buffer[] = [];
      stream.on("data", (chunk: Buffer) => chunks.push(chunk));
      stream.on("end", () => {
        if (mailbox.refusal !== null) return done(Object.assign(new Error(mailbox.refusal), { responseCode: 550 }));
        const { mailFrom, rcptTo } = session.envelope;
        const raw = Buffer.concat(chunks);
        const text = raw
          .toString()
          .replaceAll(/=\r?\n/g, "")
          .replaceAll("=3D", "=");
        mails.push({
          from: mailFrom === false ? "" : (mailFrom?.address ?? ""),
          to: rcptTo.map(({ address }) => address),
          text,
          raw,
          user: typeof session.user === "string" ? session.user : null,
        });
        // oxlint-disable-next-line no-underscore-dangle -- the server has no other way to cut a connection
        if (mailbox.isCutting) for (const connection of server.connections) connection._socket.destroy();
        else done();
      });
    },
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.teardown(() => new Promise<void>((resolve) => server.close(() => resolve())));
  const { port } = server.server.address() as { port: number };
  return Object.assign(mailbox, {
    url: `smtp://${user === undefined ? "" : `${user.name}:${user.password}@`}127.0.0.1:${port}`,
  });
}

/** The code of the link in a mail. */
export const codeIn = (mail: ReceivedMail): string => /\/(?:sign-in|invitations)\/([\w-]{43})/.exec(mail.text)![1]!;

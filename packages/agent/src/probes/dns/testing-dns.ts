import { createSocket } from "node:dgram";
import { createServer, type AddressInfo, type Socket } from "node:net";
import {
  type Answer,
  decode,
  encode,
  type Packet,
  RECURSION_AVAILABLE,
  RECURSION_DESIRED,
  streamEncode,
  TRUNCATED_RESPONSE,
} from "dns-packet";

/** How a name server answers a question: records, a return code (RFC 1035 section 4.1.1), raw bytes, or not at all. */
export interface Reply {
  answers?: Answer[];
  rcode?: number;
  /** Records come over TCP only. */
  truncated?: boolean;
  /** Changes the packet before it is sent. */
  change?: (packet: Packet) => Packet;
  raw?: Buffer;
  /** Raw bytes, by the id of the question. */
  rawOf?: (id: number) => Buffer;
  silent?: boolean;
  delayMs?: number;
}

export interface NameServer {
  /** `127.0.0.1:5353` */
  address: string;
  /** The questions so far, `UDP A www.example.org`. */
  asked: string[];
  /** What is answered, by name in lower case. Other names do not exist. */
  zone: Record<string, Reply>;
}

/** A name server on loopback, UDP and TCP, for as long as the test goes on. */
export async function nameServer(
  t: { teardown(close: () => void): void },
  zone: Record<string, Reply>,
): Promise<NameServer> {
  const asked: string[] = [];
  const connections = new Set<Socket>();
  const answer = (message: Buffer, by: "UDP" | "TCP", send: (packet: Packet | Buffer) => void): void => {
    const { id, questions = [] } = decode(message);
    const [question] = questions;
    const name = question?.name.toLowerCase() ?? "";
    asked.push(`${by} ${question?.type} ${name}`);
    const reply = zone[name] ?? { rcode: 3 };
    if (reply.silent === true) return;
    const cut = by === "UDP" && reply.truncated === true;
    const flags = RECURSION_DESIRED | RECURSION_AVAILABLE | (reply.rcode ?? 0) | (cut ? TRUNCATED_RESPONSE : 0);
    const packet: Packet = {
      type: "response",
      id: id ?? 0,
      flags,
      questions,
      answers: cut ? [] : (reply.answers ?? []),
    };
    setTimeout(
      () => send(reply.rawOf?.(id ?? 0) ?? reply.raw ?? (reply.change ?? ((same) => same))(packet)),
      reply.delayMs ?? 0,
    );
  };
  const tcp = createServer((socket) => {
    connections.add(socket);
    let buffered = Buffer.alloc(0);
    socket.on("error", () => undefined);
    socket.on("data", (chunk) => {
      buffered = Buffer.concat([buffered, chunk as Buffer]);
      while (buffered.length >= 2 && buffered.length >= 2 + buffered.readUInt16BE(0)) {
        const end = 2 + buffered.readUInt16BE(0);
        answer(
          buffered.subarray(2, end),
          "TCP",
          (packet) => void socket.write(Buffer.isBuffer(packet) ? packet : streamEncode(packet)),
        );
        buffered = buffered.subarray(end);
      }
    });
  });
  await new Promise<void>((settle) => tcp.listen(0, "127.0.0.1", settle));
  const { port } = tcp.address() as AddressInfo;
  const udp = createSocket("udp4");
  udp.on("message", (message, peer) =>
    answer(message, "UDP", (packet) =>
      udp.send(Buffer.isBuffer(packet) ? packet : encode(packet), peer.port, peer.address),
    ),
  );
  await new Promise<void>((settle, reject) => udp.once("error", reject).bind(port, "127.0.0.1", settle));
  t.teardown(() => {
    for (const socket of connections) socket.destroy();
    tcp.close();
    udp.close();
  });
  return { address: `127.0.0.1:${port}`, asked, zone };
}

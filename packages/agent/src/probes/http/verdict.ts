import type { HttpCheck } from "@statusmesh/shared/checks/http";
import { encodingFor, isMarkup } from "../../http/charset.ts";
import { CodingError, decoded } from "../../http/codings.ts";
import type { Response } from "../../http/response.ts";
import { type BodyReader, maxBodyBytes } from "./body.ts";
import {
  compileExpectations,
  expectationsOf,
  type Judge,
  missingText,
  type Received,
  shortened,
  type Unmet,
} from "./http-expectations.ts";
import { quoteMasked } from "./snapshot.ts";
import { judgeInThread } from "./judging.ts";
import { oncePer, type ProbeContext, up, type Verdict } from "../probe.ts";

/** Steps of a judgement that are done at once; a million take 1 to 5 ms. */
const maxStepsAtOnce = 4_000_000;
/** Bytes of a body that is judged at once. */
const maxBytesAtOnce = 64 * 1024;

export const noJudge: { judge: Judge | null; searched: string | null } = { judge: null, searched: null };

/** What judges responses; `searched` is the text where it is all that is expected beyond the status. */
export const judgeOf = oncePer((spec: HttpCheck): typeof noJudge => {
  const { expected_body_contains: contains } = spec;
  const others =
    spec.expected_headers.length > 0 ||
    spec.expected_body_absent !== null ||
    (contains !== null && spec.body_case_insensitive) ||
    spec.expected_body_matches !== null ||
    spec.expected_body_not_matches !== null ||
    spec.expected_json.length > 0;
  if (!others && contains === null) return noJudge;
  return { judge: compileExpectations(spec), searched: others ? null : contains };
});

interface BodyJudging extends Pick<ProbeContext, "signal" | "trace" | "owner" | "warn"> {
  judge: Judge;
  searched: string | null;
  charset: string | null;
  codings: readonly string[];
  partial: boolean;
}

/** What a kept body lacks, or why it cannot be read. */
export async function judgeBody(
  spec: HttpCheck,
  response: Response,
  reader: BodyReader,
  judging: BodyJudging,
): Promise<Unmet | Verdict | null> {
  const { judge, searched, charset, codings, partial, warn } = judging;
  const headers = spec.expected_headers.map(({ name }) => response.values(name.toLowerCase()));
  const contentType = response.value("content-type") ?? "";
  try {
    const options = { max: maxBodyBytes, partial: partial || reader.cut };
    const { bytes: body, ...end } = await decoded(reader.whole, codings, options);
    const cut = reader.cut || end.cut;
    if ((cut || partial) && (spec.expected_body_absent !== null || spec.expected_body_not_matches !== null))
      warn("Only the first MiB of the body was searched for what must be absent.");
    const hints = { label: charset, markup: isMarkup(contentType), cut: cut || partial };
    if (searched !== null && encodingFor(body, hints) === "utf-8")
      return body.includes(searched) ? null : missingText(searched, { cut });
    return await judgeResponse(spec, judge, { headers, body, cut, charset, contentType }, judging);
  } catch (error) {
    if (!(error instanceof CodingError)) throw error;
    return { status: "error", error: error.message };
  }
}

/** The verdict on a body that still arrives at the deadline; null where more of it could change the verdict. */
export async function endless(
  spec: HttpCheck,
  { warn }: ProbeContext,
  judged: Promise<Unmet | Verdict | null>,
): Promise<Verdict | null> {
  const found = await judged;
  if (found === null) {
    warn("the body did not end");
    return up;
  }
  return "before" in found && found.isPresent !== true ? null : verdictOn(spec, found);
}

/** At once where that takes little, else in a thread. */
async function judgeResponse(
  spec: HttpCheck,
  judge: Judge,
  received: Received,
  { trace, owner, signal }: Pick<ProbeContext, "trace" | "owner" | "signal">,
): Promise<Unmet | Verdict | null> {
  if (received.body.length <= maxBytesAtOnce && judge.cost(received) <= maxStepsAtOnce) return judge.judge(received);
  const busy: Verdict = { status: "error", error: "the agent had no time to judge the response", skip: true };
  trace.verdict = busy;
  const outcome = await judgeInThread(
    { expectations: expectationsOf(spec), received },
    {
      owner,
      signal,
      onPhase: (phase) => {
        const error = phase === "json" ? "the path selects too much" : "the patterns take too long on this body";
        trace.verdict = phase === "starved" ? busy : { status: "error", error };
      },
    },
  );
  if (outcome === "busy") return busy;
  return outcome === "overdue" ? trace.verdict : outcome;
}

export const verdictOn = (spec: HttpCheck, found: Unmet | Verdict | null): Verdict =>
  found !== null && "error" in found ? found : verdictOf(spec, found);

function verdictOf(spec: HttpCheck, unmet: Unmet | null): Verdict {
  if (unmet === null) return up;
  const got = unmet.got === null ? "" : shortened(quoteMasked(spec, unmet.got, unmet.header));
  return { status: unmet.status, error: unmet.before + got + unmet.after };
}

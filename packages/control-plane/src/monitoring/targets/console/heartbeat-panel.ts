import { isHeartbeat } from "@statusmesh/shared/checks";
import type { HeartbeatCheck } from "@statusmesh/shared/checks/heartbeat";
import type { Ctx } from "../../../platform/context.ts";
import { getHeartbeat, listPings } from "../../heartbeats/service.ts";
import type { Heartbeat } from "../../heartbeats/schema.ts";
import type { Target } from "../schema.ts";

/** Pings that the page shows. */
const shownPings = { limit: 20, offset: 0 };

/** The part of a monitor's page that only a heartbeat has; null for other kinds. */
export async function heartbeatPanel(ctx: Ctx, target: Target) {
  if (!isHeartbeat(target.check)) return null;
  const [heartbeat, listed] = await Promise.all([getHeartbeat(ctx, target.id), listPings(ctx, target.id, shownPings)]);
  const pings = listed.items;
  const failure = pings.find(({ kind, body }) => kind === "fail" && body !== null);
  const { down_at: downAt } = heartbeat;
  // Over, and not yet down: it waits for an agent.
  const held = heartbeat.state === "late" && downAt !== null && Date.parse(downAt) <= ctx.clock.now();
  return {
    heartbeat,
    held,
    pings,
    failure: failure ?? null,
    commands: commandsOf(heartbeat, target.name, target.check),
  };
}

/** How a job reports, ready to paste. */
function commandsOf({ ping_url: url }: Heartbeat, name: string, { schedule, methods }: HeartbeatCheck) {
  const cron = schedule?.cron.trim() ?? "0 3 * * *";
  const isPost = methods === "post";
  const unit =
    name
      .toLowerCase()
      .replaceAll(/[^a-z0-9]+/g, "-")
      .replaceAll(/^-|-$/g, "") || "job";
  const send = `curl -fsS -m 10 --retry 5 -o /dev/null${isPost ? " -X POST" : ""}`;
  const wget = `wget -q -O /dev/null -T 10${isPost ? " --post-data=" : ""}`;
  return [
    { id: "cron", title: "Cron", text: `${cron} /path/to/job; ${send} ${url}/$?` },
    {
      id: "output",
      title: "Shell, with duration and output",
      text:
        `rid=$(cat /proc/sys/kernel/random/uuid)\n${send} "${url}/start?rid=$rid"\n` +
        `out=$(/path/to/job 2>&1); code=$?\n` +
        `printf %s "$out" | tail -c 10000 | ${send} --data-binary @- "${url}/$code?rid=$rid"`,
    },
    {
      id: "wrap",
      title: "sm-agent, with duration and output",
      text: `SM_PING_URL=${url} sm-agent wrap -- /path/to/job`,
    },
    {
      id: "systemd",
      title: "systemd",
      text:
        `# systemctl edit ${unit}.service\n[Service]\nExecStartPre=-/usr/bin/${send} ${url}/start\n` +
        `ExecStopPost=-/usr/bin/env sh -c '${send} ${url}/$$([ "$SERVICE_RESULT" = success ] && echo 0 || echo fail)'`,
    },
    {
      id: "kubernetes",
      title: "Kubernetes CronJob",
      text:
        `containers:\n  - name: ${unit}\n    command: ["/bin/sh", "-c"]\n` +
        `    args: ["/path/to/job; code=$?; ${wget} ${url}/$code; exit $code"]`,
    },
    {
      id: "powershell",
      title: "PowerShell",
      text:
        // Windows has larger and negative codes, and none where the program cannot be started.
        `& C:\\path\\to\\job.exe\n` +
        `$code = if ($LASTEXITCODE -in 0..255) { $LASTEXITCODE } else { "fail" }\n` +
        `Invoke-RestMethod${isPost ? " -Method Post" : ""} -TimeoutSec 10 -Uri "${url}/$code"`,
    },
    {
      id: "github",
      title: "GitHub Actions",
      text:
        `- name: Report to StatusMesh\n  if: always()\n` +
        `  run: ${send} "${url}/\${{ job.status == 'success' && 'success' || 'fail' }}"`,
    },
  ];
}

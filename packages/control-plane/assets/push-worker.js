// The service worker of the console: shows push messages, and acknowledges. It handles no fetch, so that pages load as
// they do without it. Its address has no hash, as browsers look for a new version there.

const here = (address) => {
  const { pathname, search } = new URL(address, self.location.origin);
  return pathname + search;
};

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));

const unreadable = { title: "StatusMesh", body: "Something changed. Open On call.", url: "/oncall", tag: "statusmesh" };

function contentOf(data) {
  try {
    return { ...unreadable, ...data.json() };
  } catch {
    return unreadable;
  }
}

/** Browsers withdraw the permission of a site that shows nothing for a push message. */
function show({ title, body, url, tag, acknowledge_url: acknowledge = null, sent_at: timestamp = Date.now() }, more) {
  const actions = [{ action: "open", title: "Open" }];
  if (acknowledge !== null) actions.unshift({ action: "acknowledge", title: "Acknowledge" });
  return self.registration.showNotification(title, {
    body,
    tag,
    renotify: true,
    timestamp,
    icon: "icon-180.png",
    badge: "icon-180.png",
    actions,
    requireInteraction: acknowledge !== null,
    data: { title, url, tag, acknowledge },
    ...more,
  });
}

self.addEventListener("push", (event) => event.waitUntil(show(contentOf(event.data))));

/** Why the server did not acknowledge, in words; null where it has. */
async function acknowledged(address) {
  try {
    const reply = await fetch(here(address), { method: "POST" });
    if (reply.ok) return null;
    const answer = await reply.json().catch(() => null);
    return answer?.error?.message ?? `StatusMesh answered ${reply.status}.`;
  } catch {
    return "StatusMesh does not answer.";
  }
}

async function acknowledge({ title, url, tag, acknowledge: address }) {
  const problem = await acknowledged(address);
  if (problem === null) return await show({ title: `Acknowledged: ${title}`, body: "", url, tag }, { silent: true });
  // The button stays: a phone in a tunnel tries again.
  await show({ title: `Not acknowledged: ${title}`, body: problem, url, tag, acknowledge_url: address });
}

async function open(address) {
  const path = here(address);
  const windows = await self.clients.matchAll({ type: "window", includeUncontrolled: true });
  const shown = windows.find(({ url }) => here(url) === path);
  if (shown) return await shown.focus();
  await self.clients.openWindow(path);
}

self.addEventListener("notificationclick", (event) => {
  const { notification, action } = event;
  notification.close();
  event.waitUntil(action === "acknowledge" ? acknowledge(notification.data) : open(notification.data.url));
});

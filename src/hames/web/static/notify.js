/** The service worker: it shows notifications where a page itself may not (phones), and opens the thread that one is about. */

self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  const threadId = event.notification.data?.threadId;
  event.waitUntil(
    self.clients.matchAll({ type: "window", includeUncontrolled: true }).then(async (pages) => {
      const path = new URL(threadId ? `t/${encodeURIComponent(threadId)}` : ".", self.registration.scope).href;
      const page = pages.find(({ visibilityState }) => visibilityState === "visible") ?? pages[0];
      if (!page) return self.clients.openWindow(path);
      await page.focus();
      if (threadId) page.postMessage({ openThread: threadId });
    }),
  );
});

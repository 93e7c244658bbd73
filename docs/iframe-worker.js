// Search runs in a worker, which browsers refuse to pages opened from a disk. There, a hidden frame does the same work.
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = Object.assign(document.createElement("iframe"), { hidden: true });
      document.body.append(frame);
      const inside = frame.contentWindow;
      const script = inside.document.createElement("script");
      script.src = new URL(url, location.href);
      this.ready = new Promise((resolve, reject) => Object.assign(script, { onload: resolve, onerror: reject }));
      this.inside = inside;
      inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }));
      inside.document.body.append(script);
    }
    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
    }
    terminate() {}
  };
  window.Worker = window.IFrameWorker;
}

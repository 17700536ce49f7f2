// From the disk (file:) a browser starts no worker: the search then runs in a hidden frame.
if (location.protocol === "file:")
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.ready = new Promise((resolve) => {
        const frame = document.createElement("iframe");
        frame.hidden = true;
        document.body.append(frame);
        const inner = frame.contentWindow, page = frame.contentDocument;
        inner.postMessage = (data) => this.receive(data);
        inner.importScripts = (...urls) =>
          urls.reduce((before, next) => before.then(() => load(page, next)), Promise.resolve());
        load(page, url).then(() => resolve(inner));
      });
    }
    receive(data) {
      const event = new MessageEvent("message", { data });
      this.dispatchEvent(event);
      if (this.onmessage) this.onmessage(event);
    }
    postMessage(data) {
      this.ready.then((inner) => inner.dispatchEvent(new inner.MessageEvent("message", { data })));
    }
    terminate() {}
  };

function load(page, url) {
  return new Promise((resolve, reject) => {
    const script = page.createElement("script");
    Object.assign(script, { src: url, onload: resolve, onerror: reject });
    page.body.append(script);
  });
}

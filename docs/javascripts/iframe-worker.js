// Browsers refuse workers to pages that are opened as files. Then the search runs in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class {
    constructor(url) {
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.body.append(this.frame)
      const inside = this.frame.contentWindow
      inside.postMessage = data => setTimeout(() => this.onmessage?.({ data: structuredClone(data) }))
      const script = inside.document.createElement("script")
      script.src = new URL(url, location.href)
      this.loaded = new Promise((resolve, reject) => {
        script.onload = resolve
        script.onerror = () => reject(new Error(`cannot load ${script.src}`))
      })
      this.loaded.catch(error => this.onerror?.(new ErrorEvent("error", { error })))
      inside.document.body.append(script)
    }

    postMessage(data) {
      const message = { data: structuredClone(data) }
      this.loaded.then(() => this.frame.contentWindow?.onmessage(message), () => {})
    }

    terminate() {
      this.frame.remove()
    }
  }
}

// In Airflow's frame: its dark mode, and links that leave the frame. By itself: the reader's own dark mode.
"use strict";

(() => {
  const page = document.documentElement;

  const airflow = () => {
    try {
      // Another origin's window would throw here.
      return window.parent !== window && window.parent.document ? window.parent : null;
    } catch {
      return null;
    }
  };

  const frame = airflow();
  const wish = window.matchMedia("(prefers-color-scheme: dark)");

  const dress = () => {
    const dark = frame ? frame.document.documentElement.classList.contains("dark") : wish.matches;
    page.classList.toggle("dark", dark);
    page.classList.toggle("light", !dark);
    // Reports of the lake go by this alone.
    page.style.colorScheme = dark ? "dark" : "light";
  };

  page.classList.toggle("framed", frame !== null);
  dress();
  wish.addEventListener("change", dress);
  if (frame) {
    new MutationObserver(dress).observe(frame.document.documentElement, { attributeFilter: ["class"] });
  }

  // A plain link would put Airflow into its own frame, and the frame's sandbox opens no window.
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-leaves]");
    if (!link || !frame || event.defaultPrevented || event.button !== 0) {
      return;
    }
    event.preventDefault();
    const own = link.origin === frame.location.origin;
    if (own && !(event.metaKey || event.ctrlKey || event.shiftKey)) {
      frame.history.pushState({}, "", link.href);
      frame.dispatchEvent(new PopStateEvent("popstate", { state: frame.history.state }));
      return;
    }
    const outside = frame.document.createElement("a");
    outside.href = link.href;
    outside.target = "_blank";
    outside.rel = "noopener noreferrer";
    outside.click();
  });
})();

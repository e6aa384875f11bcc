// In Airflow's frame: follow Airflow's dark mode, and open links outside the frame. Otherwise: follow the system's dark mode.
"use strict";

(() => {
  const page = document.documentElement;

  const airflowWindow = () => {
    try {
      // Throws if the parent window has another origin.
      return window.parent !== window && window.parent.document ? window.parent : null;
    } catch {
      return null;
    }
  };

  const frame = airflowWindow();
  const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");

  const applyTheme = () => {
    const dark = frame ? frame.document.documentElement.classList.contains("dark") : prefersDark.matches;
    page.classList.toggle("dark", dark);
    page.classList.toggle("light", !dark);
  };

  page.classList.toggle("framed", frame !== null);
  applyTheme();
  prefersDark.addEventListener("change", applyTheme);
  if (frame) {
    new MutationObserver(applyTheme).observe(frame.document.documentElement, { attributeFilter: ["class"] });
  }

  // A plain link would open Airflow inside its own frame, and the frame's sandbox allows no new window.
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-leaves-frame]");
    if (!link || !frame || event.defaultPrevented || event.button !== 0) {
      return;
    }
    event.preventDefault();
    const sameOrigin = link.origin === frame.location.origin;
    if (sameOrigin && !(event.metaKey || event.ctrlKey || event.shiftKey)) {
      frame.history.pushState({}, "", link.href);
      frame.dispatchEvent(new PopStateEvent("popstate", { state: frame.history.state }));
      return;
    }
    const anchor = frame.document.createElement("a");
    anchor.href = link.href;
    anchor.target = "_blank";
    anchor.rel = "noopener noreferrer";
    anchor.click();
  });
})();

// A sheet in a frame, in which it can be enlarged and moved about.

import { h } from "./dom.js";

const STEP = 1.25;
// Most that one turn of a wheel may do, in its own measure.
const TURN = 25;
// How far a mouse moves before it drags.
const STILL = 4;
// How many times wider than its frame a sheet is, on this page and the next one.
let scale = 1;

// A sheet of a scan that is `full` pixels wide. `shown`, if there is one, is called with how many pixels of the screen it is wide now.
export function zoomable(sheet, full, shown) {
  const frame = h("div", { class: "frame", role: "region", "aria-label": "Scan" }, sheet);
  const amount = h("button", { title: "Fit the width (0)", onclick: () => fit() });
  const draw = () => {
    const isLarge = scale > 1;
    sheet.style.width = `${100 * scale}%`;
    amount.textContent = `${Math.round(100 * scale)} %`;
    frame.classList.toggle("zoomed", isLarge);
    if (isLarge) frame.tabIndex = 0;
    else frame.removeAttribute("tabindex");
  };
  // What is at this place of the frame stays there.
  const to = (wanted, x = frame.clientWidth / 2, y = frame.clientHeight / 2) => {
    const most = Math.max(4, (2 * full) / frame.clientWidth);
    const before = scale;
    scale = Math.min(most, Math.max(1, wanted));
    const place = (scrolled, at) => ((scrolled + at) * scale) / before;
    const [left, top] = [place(frame.scrollLeft, x), place(frame.scrollTop, y)];
    draw();
    frame.scrollTo(left - x, top - Math.min(y, frame.clientHeight));
  };
  const by = (factor) => to(scale * factor);
  const fit = () => to(1);
  draw();
  if (shown) new ResizeObserver(() => shown(sheet.clientWidth * devicePixelRatio)).observe(sheet);

  const inFrame = (x, y) => {
    const box = frame.getBoundingClientRect();
    return [x - box.left, y - box.top];
  };
  frame.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const turn = Math.max(-TURN, Math.min(TURN, event.deltaY));
    to(scale * Math.exp(-turn / 100), ...inFrame(event.clientX, event.clientY));
  }, { passive: false });
  dragged(frame);
  pinched(frame, (factor, x, y) => to(scale * factor, ...inFrame(x, y)));

  return {
    place: frame,
    buttons: h("span", { class: "zoom", role: "group", "aria-label": "Size of the scan" },
      h("button", { title: "Smaller (-)", "aria-label": "Smaller", onclick: () => by(1 / STEP) }, "−"), amount,
      h("button", { title: "Larger (+)", "aria-label": "Larger", onclick: () => by(STEP) }, "+")),
    keys: { "+": () => by(STEP), "=": () => by(STEP), "-": () => by(1 / STEP), 0: fit },
    // Makes the sheet as wide as its frame.
    fit,
    // Brings a part of the sheet, in shares of its sides, into the frame.
    reveal: ([left, top, right, bottom]) => {
      frame.scrollTo(
        brought(left * sheet.clientWidth, right * sheet.clientWidth, frame.scrollLeft, frame.clientWidth),
        brought(top * sheet.clientHeight, bottom * sheet.clientHeight, frame.scrollTop, frame.clientHeight));
    },
  };
}

// Where to scroll to, along one side: as little as shows it, and to its beginning where it is too long.
function brought(from, to, scrolled, seen) {
  if (to - from > seen) return from;
  return Math.min(from, Math.max(scrolled, to - seen));
}

// Fingers move a frame by themselves.
function dragged(frame) {
  let from;
  frame.addEventListener("pointerdown", (event) => {
    from = event.pointerType === "mouse" && event.button === 0 && { x: event.clientX, y: event.clientY, left: frame.scrollLeft, top: frame.scrollTop };
  });
  frame.addEventListener("pointermove", (event) => {
    if (!from || !(event.buttons & 1)) return;
    const [right, down] = [event.clientX - from.x, event.clientY - from.y];
    if (!frame.hasPointerCapture(event.pointerId)) {
      if (Math.hypot(right, down) < STILL) return;
      // Nothing that lies under the mouse is chosen by letting go of it.
      frame.setPointerCapture(event.pointerId);
    }
    frame.scrollTo(from.left - right, from.top - down);
  });
}

// Two fingers: `zoom` is called with how much further apart they are, and the point between them.
function pinched(frame, zoom) {
  let before;
  frame.addEventListener("touchmove", (event) => {
    if (event.touches.length !== 2) return;
    event.preventDefault();
    const [one, other] = event.touches;
    const now = {
      x: (one.clientX + other.clientX) / 2, y: (one.clientY + other.clientY) / 2,
      apart: Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY),
    };
    if (before) {
      frame.scrollBy(before.x - now.x, before.y - now.y);
      zoom(now.apart / before.apart, now.x, now.y);
    }
    before = now;
  }, { passive: false });
  for (const name of ["touchstart", "touchend", "touchcancel"]) frame.addEventListener(name, () => (before = undefined));
}

// point makes a view answer to mouse, pen and fingers: a drag of the mouse selects, one of a finger moves the picture,
// two fingers zoom. The button "Select" lets a finger select; Shift lets the mouse move the picture.
gpuprof.point = function (v, p) {
  "use strict";
  var canvas = v.canvas,
    down = new Map(),
    drag = null;
  function place(e) {
    var box = canvas.getBoundingClientRect();
    return { x: e.clientX - box.left, y: e.clientY - box.top };
  }
  function apart() {
    var q = Array.from(down.values());
    return Math.abs(q[0].x - q[1].x);
  }
  canvas.addEventListener("pointerdown", function (e) {
    if (e.button !== 0 && e.button !== 1) return;
    gpuprof.current = v;
    canvas.focus({ preventScroll: true });
    canvas.setPointerCapture(e.pointerId);
    var at = place(e),
      moves = !p.sums || e.shiftKey || e.button === 1 || (e.pointerType === "touch" && !v.selects);
    down.set(e.pointerId, at);
    drag =
      down.size === 1
        ? { x: at.x, value: v.value(at.x), moves: moves, far: false }
        : { pinch: apart(), from: v.from, to: v.to, far: true };
  });
  canvas.addEventListener("pointermove", function (e) {
    var at = place(e);
    if (!down.has(e.pointerId)) {
      v.tell(p.at(at.x, at.y, v));
      return;
    }
    down.set(e.pointerId, at);
    if (!drag) return;
    if (drag.pinch !== undefined) {
      if (down.size < 2) return;
      var f = Math.max(drag.pinch, 8) / Math.max(apart(), 8),
        middle = (drag.from + drag.to) / 2,
        half = ((drag.to - drag.from) / 2) * f;
      v.show(middle - half, middle + half);
      return;
    }
    drag.far = drag.far || Math.abs(at.x - drag.x) > 4;
    if (!drag.far) return;
    if (!drag.moves) {
      v.select(drag.value, v.value(at.x));
      return;
    }
    var by = drag.value - (v.from + (at.x - p.left) / v.scale());
    v.show(v.from + by, v.to + by);
  });
  function up(e) {
    var at = place(e);
    down.delete(e.pointerId);
    if (drag && !drag.far && e.type === "pointerup") click(p.at(at.x, at.y, v));
    if (down.size === 0) drag = null;
  }
  function click(item) {
    v.choose(item);
    if (item !== null && p.clickZooms) v.zoomChosen();
    if (item === null && v.selection) v.clear();
  }
  canvas.addEventListener("pointerup", up);
  canvas.addEventListener("pointercancel", up);
  canvas.addEventListener("dblclick", function (e) {
    if (!p.clickZooms) v.zoom(0.4, v.value(place(e).x));
  });
  canvas.addEventListener(
    "wheel",
    function (e) {
      if (!e.ctrlKey) return; // the page scrolls
      e.preventDefault();
      v.zoom(e.deltaY > 0 ? 1.25 : 0.8, v.value(place(e).x));
    },
    { passive: false },
  );
};

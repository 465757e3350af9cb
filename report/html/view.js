// A view is a canvas over one range of values. A picture gives: span, least (the narrowest range), left (the room
// for names), height(), draw(g, view), at(x, y), tell(item), range(item), find(text), sums(from, to), move(rows,
// items).
gpuprof.view = function (root, p) {
  "use strict";
  var canvas = root.querySelector("canvas[id]"),
    tip = root.querySelector(".tip"),
    stack = null,
    queued = false;
  var v = { from: 0, to: p.span, selection: null, hits: [], hit: -1, chosen: null, canvas: canvas, root: root };
  v.redraw = function () {
    if (!queued) {
      queued = true;
      requestAnimationFrame(draw);
    }
  };
  v.scale = function () {
    return (canvas.clientWidth - p.left - 4) / (v.to - v.from);
  };
  v.x = function (value) {
    return p.left + (value - v.from) * v.scale();
  };
  v.value = function (x) {
    return Math.min(Math.max(v.from + (x - p.left) / v.scale(), 0), p.span);
  };
  v.show = function (a, b) {
    var width = Math.min(Math.max(b - a, p.least), p.span),
      middle = (a + b) / 2;
    if (b - a < p.least) {
      a = middle - width / 2;
    }
    v.from = Math.min(Math.max(a, 0), p.span - width);
    v.to = v.from + width;
    v.redraw();
  };
  v.zoom = function (f, at) {
    if (at === undefined) at = (v.from + v.to) / 2;
    v.show(at - (at - v.from) * f, at + (v.to - at) * f);
  };
  v.pan = function (f) {
    var d = f * (v.to - v.from);
    v.show(v.from + d, v.to + d);
  };
  v.all = function () {
    v.show(0, p.span);
  };
  // focus shows a range with room on both sides.
  v.focus = function (r) {
    var room = Math.max((r[1] - r[0]) * 0.6, p.least / 2);
    v.show(r[0] - room, r[1] + room);
  };

  function draw() {
    queued = false;
    var h = p.height(),
      g = gpuprof.prepare(canvas, h);
    p.draw(g, v);
    v.hits.forEach(function (hit, i) {
      // one mark a hit; the present one is framed
      var x = v.x(hit.range[0]),
        w = Math.max(v.x(hit.range[1]) - x, 2),
        y = hit.y === undefined ? p.top : hit.y;
      if (x + w < p.left || x > canvas.clientWidth) return;
      g.strokeStyle = gpuprof.color(i === v.hit ? "fg" : "soft");
      g.lineWidth = i === v.hit ? 2 : 1;
      g.strokeRect(Math.max(x, p.left), y + 1, Math.min(w, canvas.clientWidth - x), (hit.h || h - p.top) - 2);
    });
    if (v.selection) {
      var a = Math.max(v.x(v.selection[0]), p.left),
        b = Math.min(v.x(v.selection[1]), canvas.clientWidth);
      g.fillStyle = gpuprof.color("link");
      g.globalAlpha = 0.16;
      g.fillRect(a, 0, Math.max(b - a, 1), h);
      g.globalAlpha = 1;
    }
    g.lineWidth = 1;
  }

  // tell writes an item below the picture, and its stack where there is one.
  v.tell = function (item) {
    var said = item === null ? { text: "\u00a0" } : p.tell(item);
    tip.textContent = said.text;
    if (!p.stacks) return;
    if (!stack) {
      stack = gpuprof.element("ol", { class: "stack", "aria-label": "Stack", tabindex: "0" });
      tip.after(stack);
    }
    stack.replaceChildren();
    (said.stack || []).forEach(function (f) {
      stack.appendChild(gpuprof.element("li", {}, f));
    });
  };
  v.choose = function (item) {
    v.chosen = item;
    v.tell(item);
    var r = item !== null && p.range(item);
    if (r && (r[1] < v.from || r[0] > v.to)) v.show(r[0] - (v.to - v.from) / 2, r[0] + (v.to - v.from) / 2);
    v.redraw();
  };
  v.select = function (a, b) {
    v.selection = [Math.min(a, b), Math.max(a, b)];
    v.redraw();
    sum();
  };
  var sums = gpuprof.element("div", { class: "selected", "aria-live": "polite" });
  root.appendChild(sums);
  function sum() {
    sums.replaceChildren();
    if (!v.selection || !p.sums) return;
    var s = p.sums(v.selection[0], v.selection[1]),
      t = gpuprof.table(s.caption, s.head, s.rows);
    sums.appendChild(t);
    if (s.note) sums.appendChild(gpuprof.element("p", { class: "meta" }, s.note));
  }
  v.clear = function () {
    v.selection = null;
    v.hits = [];
    v.hit = -1;
    v.chosen = null;
    v.tell(null);
    sum();
    v.counted();
    v.redraw();
  };
  // found makes hits the places among which next and previous lead.
  v.found = function (hits, at) {
    v.hits = hits;
    v.hit = -1;
    v.go(at || 0);
  };
  v.go = function (to) {
    if (v.hits.length) {
      v.hit = (to + v.hits.length) % v.hits.length;
      var hit = v.hits[v.hit];
      v.focus(hit.range);
      if (hit.item !== undefined) {
        v.chosen = hit.item;
        v.tell(hit.item);
      }
    }
    v.counted();
    v.redraw();
  };
  v.next = function (by) {
    v.go(v.hit + by);
  };
  v.counted = function () {};
  v.selectChosen = function () {
    var r = v.chosen !== null && p.range(v.chosen);
    if (r) v.select(r[0], r[1]);
  };
  v.zoomChosen = function () {
    var r = v.chosen !== null && p.range(v.chosen);
    if (r) v.focus(r);
  };
  gpuprof.point(v, p);
  gpuprof.controls(v, p);
  window.addEventListener("resize", v.redraw);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", v.redraw);
  root.hidden = false;
  root.classList.add("drawn");
  gpuprof.views = gpuprof.views || {};
  gpuprof.views[root.id] = v;
  if (!gpuprof.current) gpuprof.current = v;
  draw();
  return v;
};

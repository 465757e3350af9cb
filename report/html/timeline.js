(function () {
  "use strict";
  var source = document.getElementById("timeline-data"), canvas = document.getElementById("tl");
  if (!source || !canvas) return;
  var data = JSON.parse(source.textContent), tip = document.getElementById("tl-tip");
  document.getElementById("timeline-view").hidden = false;
  var rowHeight = 22, left = 150, top = 22, from = 0, to = data.span, hover = null, cursor = { row: 0, i: -1 };
  // Starts come as differences; sums and the end of every box are made once.
  data.rows.forEach(function (row) {
    var b = row.boxes, n = b.length / 5, at = 0;
    row.n = n; row.start = new Float64Array(n); row.end = new Float64Array(n);
    for (var i = 0; i < n; i++) { at += b[5 * i]; row.start[i] = at; row.end[i] = at + b[5 * i + 1]; }
  });
  function color(name) { return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim(); }
  function unit(ns) {
    var a = Math.abs(ns);
    if (a >= 1e9) return (ns / 1e9).toPrecision(4) + " s";
    if (a >= 1e6) return (ns / 1e6).toPrecision(4) + " ms";
    if (a >= 1e3) return (ns / 1e3).toPrecision(4) + " us";
    return Math.round(ns) + " ns";
  }
  function first(row, t) { // first box that ends after t
    var lo = 0, hi = row.n;
    while (lo < hi) { var m = (lo + hi) >> 1; if (row.end[m] <= t) lo = m + 1; else hi = m; }
    return lo;
  }
  function draw() {
    var w = canvas.clientWidth, h = top + data.rows.length * rowHeight + 6, dpr = window.devicePixelRatio || 1;
    canvas.style.height = h + "px";
    if (canvas.width !== Math.round(w * dpr)) canvas.width = Math.round(w * dpr);
    if (canvas.height !== Math.round(h * dpr)) canvas.height = Math.round(h * dpr);
    var g = canvas.getContext("2d"), fg = color("fg"), soft = color("soft"), line = color("line"), tones = data.tones.map(color);
    g.setTransform(dpr, 0, 0, dpr, 0, 0); g.clearRect(0, 0, w, h);
    g.font = "12px system-ui, sans-serif"; g.textBaseline = "middle";
    var scale = (w - left - 4) / (to - from), span = to - from, step = Math.pow(10, Math.floor(Math.log10(span / 4)));
    [5, 2].some(function (k) { if (span / (step * k) >= 4) { step *= k; return true; } });
    g.fillStyle = soft; g.strokeStyle = line; g.textAlign = "center";
    for (var t = Math.ceil(from / step) * step; t <= to; t += step) {
      var tx = left + (t - from) * scale;
      g.beginPath(); g.moveTo(tx, top - 4); g.lineTo(tx, h); g.stroke();
      if (tx > left + 20 && tx < w - 30) g.fillText(unit(t), tx, 9);
    }
    data.rows.forEach(function (row, r) {
      var y = top + r * rowHeight, b = row.boxes;
      g.textAlign = "left"; g.fillStyle = fg;
      g.save(); g.beginPath(); g.rect(0, y, left - 8, rowHeight); g.clip(); g.fillText(row.name, 2, y + rowHeight / 2); g.restore();
      g.save(); g.beginPath(); g.rect(left, y, w - left, rowHeight); g.clip();
      var last = -1, lastTone = -1;
      for (var i = first(row, from); i < row.n && row.start[i] < to; i++) {
        var x0 = left + (row.start[i] - from) * scale, x1 = left + (row.end[i] - from) * scale, tone = b[5 * i + 2];
        if (x1 - x0 < 0.7) { // narrower than a pixel: one mark a pixel is enough
          if (Math.floor(x0) === last && tone === lastTone) continue;
          last = Math.floor(x0); lastTone = tone; x1 = x0 + 0.7;
        }
        g.fillStyle = tones[tone]; g.fillRect(x0, y + 2, x1 - x0 - (x1 - x0 > 3 ? 0.5 : 0), rowHeight - 4);
        if (x1 - x0 > 46) {
          g.save(); g.beginPath(); g.rect(x0, y, x1 - x0 - 2, rowHeight); g.clip();
          g.fillStyle = color(data.ink[tone]); g.fillText(data.names[b[5 * i + 3]], Math.max(x0, left) + 4, y + rowHeight / 2); g.restore();
        }
      }
      if (r === cursor.row && cursor.i >= 0) { // the operation that the keys have chosen
        g.strokeStyle = fg; g.lineWidth = 2;
        g.strokeRect(left + (row.start[cursor.i] - from) * scale, y + 1, Math.max((row.end[cursor.i] - row.start[cursor.i]) * scale, 2), rowHeight - 2);
        g.lineWidth = 1;
      }
      g.restore();
    });
  }
  var queued = false;
  function redraw() { if (!queued) { queued = true; requestAnimationFrame(function () { queued = false; draw(); }); } }
  function view(a, b) {
    var width = Math.min(Math.max(b - a, 100), data.span);
    from = Math.min(Math.max(a, 0), data.span - width); to = from + width; redraw();
  }
  function zoom(f, at) { if (at === undefined) at = (from + to) / 2; view(at - (at - from) * f, at + (to - at) * f); }
  function pan(share) { var d = (to - from) * share; view(from + d, to + d); }
  function timeAt(x) { return from + (x - left) / (canvas.clientWidth - left - 4) * (to - from); }
  function tell(row, i) {
    var b = row.boxes, k = b[5 * i + 4];
    tip.textContent = row.name + ": " + (k > 1 ? k + " operations, most of them " : "") + data.names[b[5 * i + 3]] + ", " + data.labels[b[5 * i + 2]] + ", " + unit(row.end[i] - row.start[i]) + " from " + unit(row.start[i]);
  }
  // choose moves the keys' choice to another row, or by operations of its row.
  function choose(rows, operations) {
    if (!data.rows.length) return;
    var before = data.rows[cursor.row], at = cursor.i < 0 ? from : before.start[cursor.i];
    cursor.row = Math.min(Math.max(cursor.row + rows, 0), data.rows.length - 1);
    var row = data.rows[cursor.row];
    if (!row.n) { cursor.i = -1; tip.textContent = row.name + ": nothing"; redraw(); return; }
    cursor.i = operations && cursor.i >= 0 ? Math.min(Math.max(cursor.i + operations, 0), row.n - 1) : Math.min(first(row, at), row.n - 1);
    tell(row, cursor.i);
    var a = row.start[cursor.i], b = row.end[cursor.i];
    if (b < from || a > to) view(a - (to - from) / 2, a + (to - from) / 2); else redraw();
  }
  function describe(e) {
    var box = canvas.getBoundingClientRect(), row = data.rows[Math.floor((e.clientY - box.top - top) / rowHeight)], t = timeAt(e.clientX - box.left);
    var slack = (to - from) / canvas.clientWidth;
    if (row) {
      var i = first(row, t - slack);
      if (i < row.n && row.start[i] <= t + slack) {
        tell(row, i);
        return;
      }
    }
    tip.textContent = "\u00a0";
  }
  canvas.addEventListener("mousemove", function (e) {
    if (hover !== null) { var d = (hover - e.clientX) / (canvas.clientWidth - left) * (to - from); hover = e.clientX; view(from + d, to + d); } else describe(e);
  });
  canvas.addEventListener("mousedown", function (e) { hover = e.clientX; canvas.focus(); });
  window.addEventListener("mouseup", function () { hover = null; });
  canvas.addEventListener("dblclick", function (e) { zoom(0.4, timeAt(e.clientX - canvas.getBoundingClientRect().left)); });
  canvas.addEventListener("wheel", function (e) {
    if (!e.ctrlKey) return; // the page scrolls
    e.preventDefault(); zoom(e.deltaY > 0 ? 1.25 : 0.8, timeAt(e.clientX - canvas.getBoundingClientRect().left));
  }, { passive: false });
  canvas.addEventListener("keydown", function (e) {
    var keys = { ArrowLeft: function () { pan(-0.2); }, ArrowRight: function () { pan(0.2); }, "+": function () { zoom(0.5); }, "=": function () { zoom(0.5); }, "-": function () { zoom(2); }, Home: function () { view(0, data.span); },
      ArrowUp: function () { choose(-1, 0); }, ArrowDown: function () { choose(1, 0); }, ",": function () { choose(0, -1); }, ".": function () { choose(0, 1); } };
    if (keys[e.key]) { keys[e.key](); e.preventDefault(); }
  });
  [["in", function () { zoom(0.5); }], ["out", function () { zoom(2); }], ["left", function () { pan(-0.4); }], ["right", function () { pan(0.4); }], ["all", function () { view(0, data.span); }]].forEach(function (b) {
    document.getElementById("tl-" + b[0]).addEventListener("click", b[1]);
  });
  window.addEventListener("resize", redraw);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  draw();
})();

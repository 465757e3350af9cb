// The timeline of a trace: a row for each stream, the host's calls, idle states and claims, over time in ns.
(function () {
  "use strict";
  var root = document.getElementById("timeline-view"),
    data = gpuprof.data("timeline-data");
  if (!root || !data) return;
  var rowHeight = 22,
    top = 22,
    left = Math.min(150, Math.round(root.clientWidth * 0.25) || 150);
  data.rows.forEach(unpack);
  // Starts come as differences; sums and the end of every box are made once.
  function unpack(row, r) {
    var b = row.boxes,
      n = b.length / 5,
      at = 0,
      m = 0;
    row.n = n;
    row.at = r;
    row.start = new Float64Array(n);
    row.end = new Float64Array(n);
    row.parts = new Array(n);
    for (var i = 0; i < n; i++) {
      at += b[5 * i];
      row.start[i] = at;
      row.end[i] = at + b[5 * i + 1];
      if (b[5 * i + 4] < 2 || !row.mix) continue;
      row.parts[i] = m;
      m += 1 + 3 * row.mix[m];
    }
  }
  function first(row, t) {
    // first box that ends after t
    var lo = 0,
      hi = row.n;
    while (lo < hi) {
      var m = (lo + hi) >> 1;
      if (row.end[m] <= t) lo = m + 1;
      else hi = m;
    }
    return lo;
  }
  function name(row, i) {
    return data.names[row.boxes[5 * i + 3]];
  }

  function draw(g, v) {
    var w = v.canvas.clientWidth,
      h = height(),
      scale = v.scale(),
      fg = gpuprof.color("fg"),
      tones = data.tones.map(gpuprof.color),
      inks = data.ink.map(gpuprof.color);
    gpuprof.axis(g, v, { left: left, top: top, h: h, text: gpuprof.time });
    data.rows.forEach(function (row, r) {
      var y = top + r * rowHeight,
        b = row.boxes;
      g.textAlign = "left";
      g.fillStyle = fg;
      g.save();
      g.beginPath();
      g.rect(0, y, left - 8, rowHeight);
      g.clip();
      g.fillText(row.name, 2, y + rowHeight / 2);
      g.restore();
      g.save();
      g.beginPath();
      g.rect(left, y, w - left, rowHeight);
      g.clip();
      var last = -1,
        lastTone = -1;
      for (var i = first(row, v.from); i < row.n && row.start[i] < v.to; i++) {
        var x0 = left + (row.start[i] - v.from) * scale,
          x1 = left + (row.end[i] - v.from) * scale,
          tone = b[5 * i + 2];
        if (x1 - x0 < 0.7) {
          // narrower than a pixel: one mark a pixel is enough
          if (Math.floor(x0) === last && tone === lastTone) continue;
          last = Math.floor(x0);
          lastTone = tone;
          x1 = x0 + 0.7;
        }
        g.fillStyle = tones[tone];
        g.fillRect(x0, y + 2, x1 - x0 - (x1 - x0 > 3 ? 0.5 : 0), rowHeight - 4);
        if (x1 - x0 > 34)
          gpuprof.label(g, name(row, i), Math.max(x0, left), y, x1 - Math.max(x0, left), rowHeight, inks[tone]);
      }
      if (v.chosen && v.chosen.row === row) {
        g.strokeStyle = fg;
        g.lineWidth = 2;
        g.strokeRect(
          left + (row.start[v.chosen.i] - v.from) * scale,
          y + 1,
          Math.max((row.end[v.chosen.i] - row.start[v.chosen.i]) * scale, 2),
          rowHeight - 2,
        );
        g.lineWidth = 1;
      }
      g.restore();
    });
  }
  function height() {
    return top + data.rows.length * rowHeight + 6;
  }
  function at(x, y, v) {
    var row = data.rows[Math.floor((y - top) / rowHeight)],
      t = v.value(x),
      slack = 1 / v.scale();
    if (!row || x < left) return null;
    var i = first(row, t - slack);
    return i < row.n && row.start[i] <= t + slack ? { row: row, i: i } : null;
  }
  function tell(item) {
    var row = item.row,
      i = item.i,
      b = row.boxes,
      k = b[5 * i + 4],
      stack = row.stacks && row.stacks[i];
    var text =
      row.name +
      ": " +
      (k > 1 ? k + " operations, the longest of them " : "") +
      name(row, i) +
      ", " +
      data.labels[b[5 * i + 2]] +
      ", " +
      gpuprof.time(row.end[i] - row.start[i]) +
      " from " +
      gpuprof.time(row.start[i]);
    return {
      text: text,
      stack: stack
        ? data.stacks[stack - 1].map(function (f) {
            return data.frames[f];
          })
        : [],
    };
  }
  function range(item) {
    return [item.row.start[item.i], item.row.end[item.i]];
  }
  function move(rows, items, v) {
    if (!data.rows.length) return undefined;
    var was = v.chosen,
      r = was ? was.row.at + rows : 0;
    var row = data.rows[Math.min(Math.max(r, 0), data.rows.length - 1)];
    if (!row.n) return undefined;
    if (was && items) return { row: row, i: Math.min(Math.max(was.i + items, 0), row.n - 1) };
    return { row: row, i: Math.min(first(row, was ? was.row.start[was.i] : v.from), row.n - 1) };
  }

  var most = 5000; // places that a search leads through
  function find(text) {
    var hits = [],
      all = 0;
    var ids = data.names.map(function (n) {
      return n.toLowerCase().indexOf(text) >= 0;
    });
    data.rows.forEach(function (row) {
      for (var i = 0; i < row.n; i++) {
        if (!ids[row.boxes[5 * i + 3]]) continue;
        all++;
        if (hits.length < most) hits.push(hitOf(row, i));
      }
    });
    hits.sort(function (a, b) {
      return a.range[0] - b.range[0];
    });
    return { hits: hits, note: all > most ? ", of " + all : "" };
  }
  function hitOf(row, i) {
    return { range: [row.start[i], row.end[i]], y: top + row.at * rowHeight, h: rowHeight, item: { row: row, i: i } };
  }

  // sums adds up the operations of the streams in a range, by kind, and the idle states. A box of several operations
  // that the range cuts counts by the share of it inside.
  function sums(a, b) {
    var by = {},
      cut = false,
      hidden = 0,
      total = { ns: 0, count: 0, kernels: 0 };
    function add(kind, ns, count, device) {
      var s = (by[kind] = by[kind] || { kind: kind, ns: 0, count: 0, device: device });
      s.ns += ns;
      s.count += count;
      if (!device) return;
      total.ns += ns;
      total.count += count;
      if (data.kernels[kind]) total.kernels += count;
    }
    data.rows.forEach(function (row) {
      if (row.sums !== "stream" && row.sums !== "idle") return;
      var device = row.sums === "stream";
      hidden += row.hidden || 0;
      for (var i = first(row, a); i < row.n && row.start[i] < b; i++) {
        var inside = (Math.min(row.end[i], b) - Math.max(row.start[i], a)) / (row.end[i] - row.start[i]),
          m = row.parts[i];
        if (m === undefined) {
          add(row.boxes[5 * i + 2], inside * (row.end[i] - row.start[i]), 1, device);
          continue;
        }
        if (inside < 1) cut = true;
        for (var k = 0; k < row.mix[m]; k++) {
          var q = m + 1 + 3 * k,
            share = inside < 1 ? inside : 1;
          add(row.mix[q], row.mix[q + 1] * share, row.mix[q + 2] * share, device);
        }
      }
    });
    var rows = Object.keys(by).map(function (k) {
      return by[k];
    });
    rows.sort(function (x, y) {
      return y.device - x.device || y.ns - x.ns;
    });
    rows = merged(rows).map(function (s) {
      return line(s.label, s.ns, s.count, b - a);
    });
    rows.push(line("all operations", total.ns, total.count, b - a));
    return {
      caption:
        "Selected: " +
        gpuprof.time(b - a) +
        " from " +
        gpuprof.time(a) +
        ", " +
        Math.round(total.kernels) +
        " kernels" +
        (cut ? ", about" : ""),
      head: ["kind", "time", "share of the range", "number"],
      rows: rows,
      note:
        (cut ? "The range cuts neighbours that are drawn as one, which count by their share. " : "") +
        (hidden ? hidden + " operations without a length, or below others of their stream, are left out. " : "") +
        "Times of all streams and devices are added.",
    };
  }
  // merged adds up kinds of one label: kernels of a class, and its copies and fills.
  function merged(rows) {
    var out = [];
    rows.forEach(function (s) {
      var label = (s.device ? "" : "idle: ") + data.labels[s.kind],
        was = out.find(function (o) {
          return o.label === label;
        });
      if (was) {
        was.ns += s.ns;
        was.count += s.count;
      } else out.push({ label: label, ns: s.ns, count: s.count });
    });
    return out;
  }
  function line(label, ns, count, whole) {
    return [
      label,
      { text: gpuprof.time(ns), v: Math.round(ns) },
      ((100 * ns) / whole).toFixed(1) + " %",
      { text: String(Math.round(count)), v: Math.round(count) },
    ];
  }

  var v = gpuprof.view(root, {
    name: "Timeline",
    span: data.span,
    least: 100,
    left: left,
    top: top,
    stacks: !!data.stacks,
    height: height,
    draw: draw,
    at: at,
    tell: tell,
    range: range,
    move: move,
    find: find,
    sums: sums,
  });
  gpuprof.timeline = v;
  // A finding leads to the places where its time is, the longest first.
  document.querySelectorAll("a[data-find]").forEach(function (a) {
    a.addEventListener("click", function (e) {
      var f = data.finds[Number(a.dataset.find) - 1],
        at = 0,
        hits = [];
      if (!f) return;
      for (var i = 0; i < f.spans.length; i += 2) {
        hits.push({ range: [f.spans[i], f.spans[i] + f.spans[i + 1]] });
        if (f.spans[i + 1] > f.spans[2 * at + 1]) at = hits.length - 1;
      }
      e.preventDefault();
      v.jump(hits, at);
      v.tell(null);
      root.querySelector(".tip").textContent =
        f.rule +
        ": " +
        (f.of > hits.length ? "the longest " + hits.length + " of " : "") +
        f.of +
        " places, the longest in view; n and p lead to the others";
      root.scrollIntoView({ block: "start" });
      v.canvas.focus({ preventScroll: true });
    });
  });
})();

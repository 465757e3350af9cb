// Flames: calls below their callers, each as wide as what it and its callees take.
document.querySelectorAll('.view[data-view="flame"]').forEach(function (root) {
  "use strict";
  var data = gpuprof.data(root.dataset.from),
    rowHeight = 20,
    top = 20,
    calls = [],
    deepest = 0;
  if (!data || !data.calls.length) return;
  var show = data.unit === "B" ? gpuprof.bytes : gpuprof.time,
    above = [];
  for (var i = 0; i < data.calls.length; i += 4) {
    var c = {
      depth: data.calls[i],
      from: data.calls[i + 1],
      to: data.calls[i + 1] + data.calls[i + 2],
      name: data.names[data.calls[i + 3]],
      at: calls.length,
    };
    c.self = c.to - c.from;
    above.length = c.depth;
    c.up = above[c.depth - 1];
    if (c.up) c.up.self -= c.self;
    above[c.depth] = c;
    calls.push(c);
    deepest = Math.max(deepest, c.depth);
  }
  var least = Math.max(data.span / 1e6, 1);

  function height() {
    return top + (deepest + 1) * rowHeight + 4;
  }
  function draw(g, v) {
    var w = v.canvas.clientWidth,
      tones = ["t0", "t1"].map(gpuprof.color),
      inks = ["o0", "o1"].map(gpuprof.color),
      fg = gpuprof.color("fg");
    gpuprof.axis(g, v, { left: 0, top: top, h: height(), text: show });
    calls.forEach(function (c) {
      var x0 = Math.max(v.x(c.from), 0),
        x1 = Math.min(v.x(c.to), w),
        y = top + c.depth * rowHeight;
      if (x1 <= 0 || x0 >= w || x1 - x0 < 0.4) return;
      g.fillStyle = tones[c.depth % 2];
      g.fillRect(x0, y, Math.max(x1 - x0 - 0.5, 0.5), rowHeight - 1);
      gpuprof.label(g, x1 - x0 > 260 ? c.name : short(c.name), x0, y, x1 - x0, rowHeight, inks[c.depth % 2]);
      if (v.chosen === c) {
        g.strokeStyle = fg;
        g.lineWidth = 2;
        g.strokeRect(x0 + 1, y + 1, x1 - x0 - 2, rowHeight - 3);
        g.lineWidth = 1;
      }
    });
  }
  function short(name) {
    var at = name.lastIndexOf(" in ");
    return at < 0 ? name : name.slice(at + 4);
  }
  function at(x, y, v) {
    var depth = Math.floor((y - top) / rowHeight),
      value = v.value(x);
    return (
      calls.find(function (c) {
        return c.depth === depth && c.from <= value && value < c.to;
      }) || null
    );
  }
  function share(n) {
    return ((100 * n) / data.span).toFixed(1) + " % of the " + data.of;
  }
  function tell(c) {
    var stack = [];
    for (var f = c; f; f = f.up) stack.push(f.name);
    return {
      text:
        c.name +
        ": " +
        show(c.to - c.from) +
        ", " +
        share(c.to - c.from) +
        "; " +
        show(c.self) +
        " in the frame itself",
      stack: stack,
    };
  }
  function find(text) {
    var hits = [],
      sum = 0,
      end = -1;
    calls.forEach(function (c) {
      if (c.name.toLowerCase().indexOf(text) < 0) return;
      hits.push({ range: [c.from, c.to], y: top + c.depth * rowHeight, h: rowHeight, item: c });
      if (c.from >= end) {
        sum += c.to - c.from;
        end = c.to;
      } // a call inside another one counts once
    });
    return { hits: hits, note: ", together " + show(sum) + ", " + share(sum) };
  }
  function move(rows, items, v) {
    var c = v.chosen;
    if (!c) return calls[0];
    if (rows < 0) return c.up || c;
    if (rows > 0)
      return (
        calls.find(function (k) {
          return k.up === c;
        }) || c
      );
    var same = calls.filter(function (k) {
      return k.depth === c.depth;
    });
    return same[Math.min(Math.max(same.indexOf(c) + items, 0), same.length - 1)];
  }
  gpuprof.view(root, {
    name: root.querySelector("canvas").getAttribute("aria-label"),
    span: data.span,
    least: least,
    left: 0,
    top: top,
    stacks: true,
    clickZooms: true,
    height: height,
    draw: draw,
    at: at,
    tell: tell,
    range: function (c) {
      return [c.from, c.to];
    },
    move: move,
    find: find,
  });
  if (data.left)
    root.appendChild(
      gpuprof.element(
        "p",
        { class: "meta" },
        "Not drawn: " + data.left + " calls narrower than a ten-thousandth of the whole.",
      ),
    );
});

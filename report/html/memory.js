// Memory over time: every large allocation over the events of the recording, stacked by category.
document.querySelectorAll('.view[data-view="memory"]').forEach(function (root) {
  "use strict";
  var data = gpuprof.data(root.dataset.from),
    top = 22,
    left = 76,
    tall = 300,
    lives = [];
  if (!data || !data.lives.length) return;
  for (var i = 0, last = 0; i < data.lives.length; i += 5) {
    last += data.lives[i];
    lives.push({
      born: last,
      done: last + data.lives[i + 1],
      bytes: data.lives[i + 2],
      kind: data.lives[i + 3],
      stack: data.lives[i + 4],
    });
  }
  // From the bottom up: by category, the older ones first. A block moves only where one below it comes or goes.
  lives.sort(function (a, b) {
    return a.kind - b.kind || a.born - b.born;
  });
  lives.forEach(function (l, k) {
    l.at = k;
  });
  var most = 1.08 * Math.max.apply(null, data.reserved.concat(data.requested));

  function height() {
    return top + tall + 4;
  }
  function y(bytes) {
    return top + tall * (1 - bytes / most);
  }
  // instants are the events that columns of a picture stand for: that of the most memory, where the series has one.
  function instants(v, columns) {
    var out = new Int32Array(columns),
      k = 0,
      step = (v.to - v.from) / columns;
    for (var c = 0; c < columns; c++) {
      var a = v.from + c * step,
        b = a + step,
        best = -1;
      while (k < data.event.length && data.event[k] < a) k++;
      for (var j = k; j < data.event.length && data.event[j] < b; j++)
        if (best < 0 || data.requested[j] > data.requested[best]) best = j;
      out[c] = best >= 0 ? data.event[best] : Math.floor((a + b) / 2);
    }
    return out;
  }
  function live(l, event) {
    return l.born <= event && event < l.done;
  }

  function draw(g, v) {
    var w = v.canvas.clientWidth,
      width = w - left - 4,
      columns = Math.max(Math.floor(width / 2), 1),
      at = instants(v, columns),
      floor = new Float64Array(columns);
    var tones = data.tones.map(gpuprof.color),
      ground = gpuprof.color("bg"),
      fg = gpuprof.color("fg");
    gpuprof.axis(g, v, {
      left: left,
      top: top,
      h: height(),
      text: function (t) {
        return String(Math.round(t));
      },
    });
    scale(g, w);
    lives.forEach(function (l) {
      block(g, l, at, floor, columns, width / columns, tones[l.kind], ground, v.chosen === l ? fg : null);
    });
    line(g, v, data.requested, gpuprof.color("soft"));
    line(g, v, data.reserved, fg);
    data.steps &&
      data.steps.length <= 60 &&
      data.steps.forEach(function (e) {
        rule(g, v, e, gpuprof.color("soft"), "");
      });
    (data.ooms || []).forEach(function (e) {
      rule(g, v, e, gpuprof.color("bad"), "out of memory");
    });
    rule(g, v, Math.max(data.peak, 0), fg, "peak " + gpuprof.bytes(data.peak_bytes));
  }
  // block fills an allocation, column by column in runs of one height.
  function block(g, l, at, floor, columns, step, tone, ground, frame) {
    var from = -1,
      low = 0;
    function flush(to) {
      if (from < 0) return;
      var h = (tall * l.bytes) / most,
        y1 = y(low + l.bytes),
        x = left + from * step,
        wide = (to - from) * step;
      g.fillStyle = tone;
      g.fillRect(x, y1, wide, h + 0.3);
      if (h > 5) {
        g.fillStyle = ground;
        g.fillRect(x, y1, wide, 0.6);
      }
      if (frame) {
        g.strokeStyle = frame;
        g.lineWidth = 2;
        g.strokeRect(x, y1, wide, Math.max(h, 1));
        g.lineWidth = 1;
      }
      from = -1;
    }
    for (var c = 0; c < columns; c++) {
      if (!live(l, at[c])) {
        flush(c);
        continue;
      }
      if (from < 0 || floor[c] !== low) {
        flush(c);
        from = c;
        low = floor[c];
      }
      floor[c] += l.bytes;
    }
    flush(columns);
  }
  function scale(g, w) {
    g.textAlign = "right";
    g.strokeStyle = gpuprof.color("line");
    gpuprof.ticks(0, most, 3, true).forEach(function (t) {
      g.fillStyle = gpuprof.color("soft");
      g.fillText(gpuprof.bytes(t), left - 6, y(t));
      g.beginPath();
      g.moveTo(left, y(t));
      g.lineTo(w - 4, y(t));
      g.stroke();
    });
  }
  function line(g, v, values, tone) {
    g.save();
    g.beginPath();
    g.rect(left, 0, v.canvas.clientWidth - left, height());
    g.clip();
    g.strokeStyle = tone;
    g.lineWidth = 1.4;
    g.beginPath();
    values.forEach(function (b, c) {
      var x0 = v.x((c * data.events) / values.length),
        x1 = v.x(((c + 1) * data.events) / values.length);
      if (c) g.lineTo(x0, y(b));
      else g.moveTo(x0, y(b));
      g.lineTo(x1, y(b));
    });
    g.stroke();
    g.restore();
  }
  function rule(g, v, event, tone, text) {
    var x = v.x(event),
      w = v.canvas.clientWidth;
    if (x < left || x > w) return;
    g.strokeStyle = tone;
    g.setLineDash([4, 3]);
    g.beginPath();
    g.moveTo(x, top);
    g.lineTo(x, top + tall);
    g.stroke();
    g.setLineDash([]);
    if (text) {
      g.fillStyle = tone;
      g.textAlign = x > w - 120 ? "right" : "left";
      g.fillText(text, x + (x > w - 120 ? -5 : 5), top + 8);
    }
  }
  function at(x, py, v) {
    var width = v.canvas.clientWidth - left - 4,
      columns = Math.max(Math.floor(width / 2), 1);
    var c = Math.floor(((x - left) / width) * columns),
      bytes = (1 - (py - top) / tall) * most,
      sum = 0;
    if (c < 0 || c >= columns || bytes < 0) return null;
    var event = instants(v, columns)[c];
    return (
      lives.find(function (l) {
        if (!live(l, event)) return false;
        sum += l.bytes;
        return bytes < sum;
      }) || null
    );
  }
  function tell(l) {
    var from = l.born < 0 ? "from before the recording" : "from event " + l.born;
    var to = l.done >= data.events ? ", not freed" : " to event " + l.done;
    return { text: gpuprof.bytes(l.bytes) + ", " + data.kinds[l.kind] + ", " + from + to, stack: frames(l) };
  }
  function frames(l) {
    return l.stack
      ? data.stacks[l.stack - 1].map(function (f) {
          return data.frames[f];
        })
      : [];
  }
  function range(l) {
    return [Math.max(l.born, 0), l.done];
  }
  function find(text) {
    var is = data.frames.map(function (f) {
        return f.toLowerCase().indexOf(text) >= 0;
      }),
      sum = 0;
    var hits = lives
      .filter(function (l) {
        return (
          data.kinds[l.kind].toLowerCase().indexOf(text) >= 0 ||
          (l.stack &&
            data.stacks[l.stack - 1].some(function (f) {
              return is[f];
            }))
        );
      })
      .sort(function (a, b) {
        return b.bytes - a.bytes || a.born - b.born;
      });
    hits.forEach(function (l) {
      sum += l.bytes;
    });
    return {
      hits: hits.slice(0, 2000).map(function (l) {
        return { range: range(l), item: l };
      }),
      note: ", the largest first, together " + gpuprof.bytes(sum),
    };
  }
  function move(rows, items, v) {
    var l = v.chosen,
      event = l ? Math.max(l.born, 0) : data.peak;
    if (!l)
      return lives.find(function (k) {
        return live(k, event);
      });
    if (items) return lives[Math.min(Math.max(l.at + items, 0), lives.length - 1)];
    var there = lives.filter(function (k) {
      return live(k, event);
    }); // up in the picture is up in the stack
    return there[Math.min(Math.max(there.indexOf(l) - rows, 0), there.length - 1)];
  }
  function sums(a, b) {
    a = Math.floor(a);
    b = Math.floor(b);
    var by = data.kinds.map(function (k) {
        return { name: k, got: 0, count: 0, freed: 0, held: 0 };
      }),
      all = { name: "all", got: 0, count: 0, freed: 0, held: 0 },
      peak = 0;
    lives.forEach(function (l) {
      [by[l.kind], all].forEach(function (s) {
        if (l.born >= a && l.born <= b) {
          s.got += l.bytes;
          s.count++;
        }
        if (l.done > a && l.done <= b && l.done < data.events) s.freed += l.bytes;
        if (live(l, Math.min(b, data.events - 1))) s.held += l.bytes;
      });
    });
    data.event.forEach(function (e, c) {
      if (e >= a && e <= b) peak = Math.max(peak, data.requested[c]);
    });
    var cell = function (n) {
      return { text: n ? gpuprof.bytes(n) : "-", v: n };
    };
    return {
      caption:
        "Selected: events " + a + " to " + b + (peak ? ", at most " + gpuprof.bytes(peak) + " of live tensors" : ""),
      head: ["category", "allocated", "allocations", "freed", "held at the end of the range"],
      rows: by
        .concat([all])
        .filter(function (s) {
          return s.got || s.freed || s.held;
        })
        .map(function (s) {
          return [s.name, cell(s.got), { text: String(s.count), v: s.count }, cell(s.freed), cell(s.held)];
        }),
      note: data.others
        ? "Without " + data.others + " smaller allocations, together " + gpuprof.bytes(data.other_bytes) + "."
        : "",
    };
  }
  legend();
  function legend() {
    var p = gpuprof.element("p", { class: "meta legend" });
    data.kinds.forEach(function (k, i) {
      var box = gpuprof.element("span", { class: "swatch" });
      box.style.background = "var(--" + data.tones[i] + ")";
      p.appendChild(box);
      p.append(" " + k + "   ");
    });
    p.append("lines: live tensors, and reserved memory above them" + (data.steps ? "; dashed: ends of steps" : ""));
    root.prepend(p);
  }
  gpuprof.view(root, {
    name: root.querySelector("canvas[id]").getAttribute("aria-label"),
    span: data.events,
    least: Math.min(20, data.events),
    left: left,
    top: top,
    stacks: true,
    height: height,
    draw: draw,
    at: at,
    tell: tell,
    range: range,
    move: move,
    find: find,
    sums: sums,
  });
  if (data.others)
    root.appendChild(
      gpuprof.element(
        "p",
        { class: "meta" },
        "Allocations that are not drawn one by one, the smallest: " +
          data.others +
          ", together " +
          gpuprof.bytes(data.other_bytes) +
          ".",
      ),
    );
});

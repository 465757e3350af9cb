(function () {
  "use strict";
  var data = document.getElementById("run-data"), save = document.getElementById("save");
  if (data && save) {
    save.hidden = false;
    save.addEventListener("click", function () {
      var text = data.textContent, part = text;
      if (save.dataset.file.slice(-3) === ".gz") {
        var raw = atob(JSON.parse(text).data);
        part = new Uint8Array(raw.length);
        for (var i = 0; i < raw.length; i++) part[i] = raw.charCodeAt(i);
      }
      var link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([part], { type: "application/octet-stream" }));
      link.download = save.dataset.file;
      link.click();
      setTimeout(function () { URL.revokeObjectURL(link.href); }, 1000);
    });
  }
  // Paper cannot be unfolded.
  window.addEventListener("beforeprint", function () {
    document.querySelectorAll("details").forEach(function (d) { d.open = true; });
  });
})();

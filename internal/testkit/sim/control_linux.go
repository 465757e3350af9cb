package sim

import "github.com/ebitengine/purego"

func openControl(lib string) (*control, error) {
	h, err := purego.Dlopen(lib, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, err
	}
	c := new(control)
	purego.RegisterLibFunc(&c.configure, h, "gpuprof_sim_configure")
	purego.RegisterLibFunc(&c.report, h, "gpuprof_sim_report")
	return c, nil
}

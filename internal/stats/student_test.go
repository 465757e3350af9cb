package stats

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
	"pgregory.net/rapid"
)

// The values below were computed with mpmath 1.3 at 60 digits (betainc and root finding); scipy's
// agree with them to 1e-12 where scipy itself does not lose digits (1 and 3 to 20 degrees of
// freedom at 1e-12).
// studentPoints are the upper points at the tails 1e-12, 1e-6, 0.025, 0.2 and 0.499999.
var studentPoints = map[float64][5]float64{
	0.1:   {1.6044257056665455e116, 1.6044257056665582e56, 1682362288745.0247, 1566.821961474339, 6.752553579547711e-06},
	0.5:   {1.02849115631634e23, 102849115631.634, 164.55767348048852, 2.5127179536659185, 3.708149354529025e-06},
	1:     {318309886183.79065, 318309.8861827435, 12.706204736174703, 1.3763819204711734, 3.141592653516074e-06},
	2:     {707106.7811854868, 707.1057205259339, 4.302652729749464, 1.0606601717798212, 2.828427124676171e-06},
	4:     {1316.0727465592565, 41.577854150450975, 2.7764451051977943, 0.9409645772351811, 2.6666666665992693e-06},
	7.3:   {91.09486659389755, 13.493523060744643, 2.345066736547704, 0.8936713571802269, 2.593686669273746e-06},
	30:    {11.397217523311411, 5.871117120418883, 2.042272456301238, 0.8537672614712976, 2.5276002260585125e-06},
	100:   {8.025825594493254, 5.048830877228346, 1.9839715185235522, 0.845230424491016, 2.5129025803064173e-06},
	1000:  {7.1242289253144095, 4.781608620458351, 1.9623390808264085, 0.8419808221624285, 2.507255009869398e-06},
	10000: {7.0433716020557755, 4.756229685056779, 1.9602012398906263, 0.8416571791416527, 2.506690941056647e-06},
	1e06:  {7.034572608411256, 4.753452348279681, 1.959966356814107, 0.841621593013984, 2.5066289012237065e-06},
	1e10:  {7.034483834179348, 4.75342431162683, 1.9599639847772814, 0.8416212336088582, 2.506628274629225e-06},
	1e13:  {7.03448382531001, 4.753424308825703, 1.9599639845402914, 0.8416212335729502, 2.506628274566622e-06},
	1e15:  {7.034483825301221, 4.753424308822927, 1.9599639845400565, 0.8416212335729145, 2.50662827456656e-06},
	1e100: {7.034483825301132, 4.753424308822899, 1.9599639845400543, 0.8416212335729142, 2.5066282745665593e-06},
	1e300: {7.034483825301132, 4.753424308822899, 1.9599639845400543, 0.8416212335729142, 2.5066282745665593e-06},
}

// studentTails are the tails above 1e-8, 0.5, 1.96, 6 and 20.
var studentTails = map[float64][5]float64{
	0.1:   {0.4999999985190788, 0.44326011332299353, 0.3899538256646258, 0.3488873911471573, 0.30933290366866817},
	0.5:   {0.499999997303237, 0.3786590364647183, 0.22486148886918958, 0.1306546887349994, 0.07169748051423032},
	1:     {0.49999999681690116, 0.35241638234956674, 0.15017144588801656, 0.05256845671125343, 0.015902251256176374},
	2:     {0.4999999964644661, 0.3333333333333333, 0.09452865480086614, 0.013335736607712385, 0.0012453319461835485},
	4:     {0.49999999625, 0.32166498159093165, 0.060777319925091784, 0.0019412685234802551, 1.8441552901498662e-05},
	7.3:   {0.49999999614448415, 0.3158967634022208, 0.04456143605000934, 0.0002308722389373932, 6.059546734897634e-08},
	30:    {0.4999999960436782, 0.31036150244256366, 0.02967115644802524, 6.971384383602371e-07, 3.3745418328856433e-19},
	100:   {0.49999999602053813, 0.3090867829154433, 0.026389450683114834, 1.5862457514014284e-08, 4.997133930668478e-37},
	1000:  {0.4999999960115744, 0.3085925404169374, 0.02513659247787436, 1.3776845866887345e-09, 2.0311442497623856e-75},
	10000: {0.4999999960106769, 0.3085430396616167, 0.025011760115916524, 1.0208092364613077e-09, 1.3823262932703867e-87},
	1e06:  {0.4999999960105782, 0.30853759373618567, 0.024998033792634895, 9.869249061772174e-10, 2.866543523695186e-89},
	1e10:  {0.4999999960105772, 0.3085375387314879, 0.024997895162084872, 9.865876787588484e-10, 2.7536351881296547e-89},
	1e13:  {0.4999999960105772, 0.3085375387259924, 0.0249978951482343, 9.865876450714193e-10, 2.7536241296757353e-89},
	1e15:  {0.4999999960105772, 0.30853753872598694, 0.024997895148220574, 9.865876450380354e-10, 2.7536241187169285e-89},
	1e100: {0.4999999960105772, 0.3085375387259869, 0.024997895148220435, 9.86587645037698e-10, 2.7536241186062337e-89},
	1e300: {0.4999999960105772, 0.3085375387259869, 0.024997895148220435, 9.86587645037698e-10, 2.7536241186062337e-89},
}

// studentDeep are degrees of freedom, a tail near the smallest number, and its upper point, where
// the density is no number any more.
var studentDeep = [][3]float64{
	{0.63, 5e-190, 4.746366552559663e299},
	{0.7, 1e-200, 9.757004018103143e284},
	{1, 1e-300, 3.1830988618379066e299},
	{2, 1e-300, 7.071067811865475e149},
	{10, 1e-300, 2.564525718948198e30},
	{39.9, 1e-300, 194603513.6600755},
	{500, 1e-300, 85.43347376312245},
	{9000, 1e-300, 38.5065592210121},
}

func TestStudent(t *testing.T) {
	near := func(what string, nu, x, got, want float64) {
		t.Helper()
		if e := math.Abs(got/want - 1); !(e <= 1e-12) && got != want {
			t.Errorf("%s of %g degrees of freedom at %g is %.17g, want %.17g", what, nu, x, got, want)
		}
	}
	for nu, points := range studentPoints {
		for i, p := range []float64{1e-12, 1e-6, 0.025, 0.2, 0.499999} {
			near("the lower point", nu, p, studentQuantile(nu, p), -points[i])
		}
		near("the upper point", nu, 0.975, TQuantile(nu, 0.975), points[2])
	}
	for nu, tails := range studentTails {
		for i, x := range []float64{1e-8, 0.5, 1.96, 6, 20} {
			near("the tail", nu, x, tSurvival(nu, x), tails[i])
			near("the other tail", nu, x, tSurvival(nu, -x), 1-tails[i])
		}
	}
	for _, deep := range studentDeep {
		near("the lower point", deep[0], deep[1], studentQuantile(deep[0], deep[1]), -deep[2])
	}
	for _, p := range []float64{0, 1} {
		if q := studentQuantile(5, p); !math.IsInf(q, int(2*p-1)) {
			t.Errorf("the point at %g is %g", p, q)
		}
	}
	for _, bad := range [][2]float64{{5, -0.1}, {5, 1.1}, {5, math.NaN()}, {math.NaN(), 0.3}} {
		if q := studentQuantile(bad[0], bad[1]); !math.IsNaN(q) {
			t.Errorf("the point of %g degrees of freedom at %g is %g", bad[0], bad[1], q)
		}
	}
}

// Quantile and survival invert each other, rise with p and fall with t, and approach the normal
// distribution, for any degrees of freedom.
func TestStudentLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nu := math.Exp(rapid.Float64Range(math.Log(0.1), math.Log(1e300)).Draw(t, "log nu"))
		// Beyond 700 nu the point exceeds the largest number.
		p := 0.5 * math.Exp(-rapid.Float64Range(1e-3, min(690, 600*nu)).Draw(t, "-log 2p"))
		q := -studentQuantile(nu, p)
		if back := studentSurvival(nu, q); !(math.Abs(back/p-1) < 1e-11) {
			t.Fatalf("nu %g: the tail above %g, the point at %g, is %g", nu, q, p, back)
		}
		if more := -studentQuantile(nu, p*0.999); more <= q {
			t.Fatalf("nu %g: the point at %g is %g, at a smaller tail %g", nu, p, q, more)
		}
		if wider := -studentQuantile(nu/2, p); wider < q*(1-1e-13) {
			t.Fatalf("nu %g: the point at %g is %g, with half of the freedom %g", nu, p, q, wider)
		}
		if z := -TQuantile(math.Inf(1), p); nu > 1e16 && math.Abs(q/z-1) > 1e-12 {
			t.Fatalf("nu %g: the point at %g is %.17g, the normal one %.17g", nu, p, q, z)
		}
	})
}

// Tails so deep that the search for the point passes subnormal numbers.
func TestStudentOfDeepTails(t *testing.T) {
	for _, nu := range []float64{52.918, 122.35, 763, 5000} {
		for _, p := range []float64{1e-250, 1.0858691406949136e-300} {
			q := -studentQuantile(nu, p)
			if back := studentSurvival(nu, q); !(math.Abs(back/p-1) < 1e-11) {
				t.Errorf("nu %g: the tail above %g, the point at %g, is %g", nu, q, p, back)
			}
		}
	}
}

// The library's distribution is not used, since it loses digits; if this fails, it may be.
func TestStudentOfLibrary(t *testing.T) {
	for nu, least := range map[float64]float64{1e5: 1e-12, 1e10: 1e-9, 1e13: 1e-3, 1e15: 0.5} {
		if q := (distuv.StudentsT{Sigma: 1, Nu: nu}).Quantile(0.975); math.Abs(q/studentQuantile(nu, 0.975)-1) < least {
			t.Errorf("gonum's 97.5 %% point of %g degrees of freedom is %g, which has become right to %g", nu, q, least)
		}
	}
}

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
// studentPoints are the upper points at the tails 1e-6, 0.025 and 0.2.
var studentPoints = map[float64][3]float64{
	0.5:   {102849115631.634, 164.55767348048852, 2.5127179536659185},
	1:     {318309.8861827435, 12.706204736174703, 1.3763819204711734},
	2:     {707.1057205259339, 4.302652729749464, 1.0606601717798212},
	4:     {41.577854150450975, 2.7764451051977943, 0.9409645772351811},
	7.3:   {13.493523060744643, 2.345066736547704, 0.8936713571802269},
	30:    {5.871117120418883, 2.042272456301238, 0.8537672614712976},
	100:   {5.048830877228346, 1.9839715185235522, 0.845230424491016},
	1000:  {4.781608620458351, 1.9623390808264085, 0.8419808221624285},
	10000: {4.756229685056779, 1.9602012398906263, 0.8416571791416527},
}

// studentTails are the tails above 0.5, 1.96, 6 and 20.
var studentTails = map[float64][4]float64{
	0.5:   {0.3786590364647183, 0.22486148886918958, 0.1306546887349994, 0.07169748051423032},
	1:     {0.35241638234956674, 0.15017144588801656, 0.05256845671125343, 0.015902251256176374},
	2:     {0.3333333333333333, 0.09452865480086614, 0.013335736607712385, 0.0012453319461835485},
	4:     {0.32166498159093165, 0.060777319925091784, 0.0019412685234802551, 1.8441552901498662e-05},
	7.3:   {0.3158967634022208, 0.04456143605000934, 0.0002308722389373932, 6.059546734897634e-08},
	30:    {0.31036150244256366, 0.02967115644802524, 6.971384383602371e-07, 3.3745418328856433e-19},
	100:   {0.3090867829154433, 0.026389450683114834, 1.5862457514014284e-08, 4.997133930668478e-37},
	1000:  {0.3085925404169374, 0.02513659247787436, 1.3776845866887345e-09, 2.0311442497623856e-75},
	10000: {0.3085430396616167, 0.025011760115916524, 1.0208092364613077e-09, 1.3823262932703867e-87},
}

func TestStudent(t *testing.T) {
	near := func(what string, nu, x, got, want, most float64) {
		t.Helper()
		if e := math.Abs(got/want - 1); !(e <= most) {
			t.Errorf("%s of %g degrees of freedom at %g is %.17g, want %.17g", what, nu, x, got, want)
		}
	}
	for nu, points := range studentPoints {
		for i, p := range []float64{1e-6, 0.025, 0.2} {
			near("the lower point", nu, p, TQuantile(nu, p), -points[i], 1e-9)
		}
		near("the upper point", nu, 0.975, TQuantile(nu, 0.975), points[1], 1e-10)
	}
	for nu, tails := range studentTails {
		for i, x := range []float64{0.5, 1.96, 6, 20} {
			near("the tail", nu, x, tSurvival(nu, x), tails[i], 1e-9)
			near("the other tail", nu, x, tSurvival(nu, -x), 1-tails[i], 1e-9)
		}
	}
	for _, p := range []float64{0, 1} {
		if q := TQuantile(5, p); !math.IsInf(q, int(2*p-1)) {
			t.Errorf("the point at %g is %g", p, q)
		}
	}
}

// Quantile and survival invert each other, rise with p and fall with t, and approach the normal distribution. The
// library loses digits of points at tails below 1e-6, which no level of a test has: one in a million of the tail there.
func TestStudentLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nu := math.Exp(rapid.Float64Range(0, math.Log(1e9)).Draw(t, "log nu"))
		p := 0.5 * math.Exp(-rapid.Float64Range(0.1, 13).Draw(t, "-log 2p"))
		q := -TQuantile(nu, p)
		if back := tSurvival(nu, q); !(math.Abs(back/p-1) < 1e-6) {
			t.Fatalf("nu %g: the tail above %g, the point at %g, is %g", nu, q, p, back)
		}
		if more := -TQuantile(nu, p*0.999); more <= q {
			t.Fatalf("nu %g: the point at %g is %g, at a smaller tail %g", nu, p, q, more)
		}
		if wider := -TQuantile(nu/2, p); nu >= 2 && wider < q*(1-1e-8) {
			t.Fatalf("nu %g: the point at %g is %g, with half of the freedom %g", nu, p, q, wider)
		}
		z := -TQuantile(math.Inf(1), p)
		if most := 1e-8 + (z*z*z+z)/nu; math.Abs(q-z) > most && nu > 1000 { // the first term of the expansion is (z^3 + z)/(4 nu)
			t.Fatalf("nu %g: the point at %g is %.17g, the normal one %.17g", nu, p, q, z)
		}
	})
}

// The library's distribution is not used for more degrees of freedom, where it loses digits; if this fails, it may be.
func TestStudentOfLibrary(t *testing.T) {
	for nu, least := range map[float64]float64{1e10: 1e-9, 1e13: 1e-3, 1e15: 0.5} {
		if q := (distuv.StudentsT{Sigma: 1, Nu: nu}).Quantile(0.975); math.Abs(q/TQuantile(nu, 0.975)-1) < least {
			t.Errorf("gonum's 97.5 %% point of %g degrees of freedom is %g, which has become right to %g", nu, q, least)
		}
	}
}

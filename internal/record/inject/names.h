// Names: each text once in a file, under `texts`.
static struct slot {
	u64 hash;
	u32 id;
} *table;
static u32 table_size, names;
static char **text_of; // by id
static struct {
	const char *p;
	u32 id;
} nearby[4096];
enum { LONGEST = 8191, MOST_NAMES = 1 << 20, NAME_ROOM = 1 << 18 };

// Texts on their way to the file; two buffers as for NVTX.
static u8 name_room[2][HEAD + NAME_ROOM + 16] __attribute__((aligned(8)));
static u32 name_bytes, name_count, name_into;

static void put_names(void) { // `lines` held
	pthread_mutex_lock(&texts);
	u32 n = name_count, bytes = name_bytes;
	u8 *full = name_room[name_into];
	name_into ^= 1, name_count = name_bytes = 0;
	pthread_mutex_unlock(&texts);
	put(full, T_NAMES, 0, n, bytes);
}

static u64 hash(const char *s, size_t n) {
	u64 h = n * 0x9E3779B97F4A7C15u, v;
	for (; n >= 8; n -= 8, s += 8) {
		memcpy(&v, s, 8);
		h = (h ^ v) * 0xff51afd7ed558ccdu;
		h ^= h >> 32;
	}
	v = 0;
	memcpy(&v, s, n);
	h = (h ^ v) * 0xc4ceb9fe1a85ec53u;
	return h ^ h >> 29;
}

static int grow(void) {
	u32 size = table_size ? table_size * 2 : 8192;
	struct slot *t = pages(size * sizeof *t);
	char **all = pages(size * sizeof *all);
	if (!t || !all) {
		if (t) munmap(t, size * sizeof *t);
		if (all) munmap(all, size * sizeof *all);
		return 0;
	}
	for (u32 i = 0; i < table_size; i++)
		if (table[i].id) {
			u32 k = (u32)table[i].hash & (size - 1);
			while (t[k].id) k = (k + 1) & (size - 1);
			t[k] = table[i];
		}
	if (table) {
		memcpy(all, text_of, table_size * sizeof *all);
		munmap(table, table_size * sizeof *table);
		munmap(text_of, table_size * sizeof *text_of);
	}
	table = t, text_of = all, table_size = size;
	return 1;
}

// name_out puts a name on its way; 0 where there is no room.
static int name_out(u32 id, const char *s, size_t n) {
	u8 *to = name_room[name_into] + HEAD;
	if (name_bytes + 8 + n + 4 > NAME_ROOM) return 0;
	memcpy(to + name_bytes, &(u32[2]){id, (u32)n}, 8);
	memcpy(to + name_bytes + 8, s, n);
	for (name_bytes += 8 + (u32)n; name_bytes & 3;) to[name_bytes++] = 0;
	name_count++;
	return 1;
}

static u32 find(const char *s) {
	static char *arena;
	static size_t left;
	unsigned near = (unsigned)((uintptr_t)s >> 3 ^ (uintptr_t)s >> 15) & (COUNT(nearby) - 1);
	// A pointer names the same text while its module is loaded; then its memory may be used again.
	if (nearby[near].p == s && !strncmp(text_of[nearby[near].id], s, LONGEST)) return nearby[near].id;
	size_t n = strnlen(s, LONGEST);
	u64 h = hash(s, n);
	if (names * 2 >= table_size && (names >= MOST_NAMES || !grow())) {
		atomic_fetch_add(&lost_names, 1);
		return 0;
	}
	u32 k = (u32)h & (table_size - 1);
	for (; table[k].id; k = (k + 1) & (table_size - 1))
		if (table[k].hash == h && !strncmp(text_of[table[k].id], s, n) && !text_of[table[k].id][n]) goto found;
	if (left < n + 1) {
		arena = pages(1 << 20);
		left = arena ? 1 << 20 : 0;
	}
	if (left < n + 1 || !name_out(names + 1, s, n)) {
		atomic_fetch_add(&lost_names, 1);
		return 0;
	}
	memcpy(arena, s, n);
	arena[n] = 0;
	table[k] = (struct slot){h, ++names};
	text_of[names] = arena;
	arena += n + 1, left -= n + 1;
found:
	nearby[near].p = s, nearby[near].id = table[k].id;
	return table[k].id;
}

// name_id is the number of a text, 0 for none; any thread.
static u32 name_id(const char *s) {
	if (!s || !*s) return 0;
	pthread_mutex_lock(&texts);
	u32 id = find(s);
	pthread_mutex_unlock(&texts);
	return id;
}

// name_in is name_id for who writes the file anyway, and so has always room. `lines` held.
static u32 name_in(const char *s) {
	pthread_mutex_lock(&texts);
	int full = name_bytes > NAME_ROOM / 2;
	pthread_mutex_unlock(&texts);
	if (full) put_names();
	return name_id(s);
}

// repeat_names writes every name again, for a file that begins after they were given their numbers. `lines` held.
static void repeat_names(void) {
	for (u32 i = 1;; i++) {
		pthread_mutex_lock(&texts);
		int more = i <= names, done = more && name_out(i, text_of[i], strlen(text_of[i]));
		pthread_mutex_unlock(&texts);
		if (!more) break;
		if (!done) put_names(), i--;
	}
	put_names();
}

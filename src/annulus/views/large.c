/* The view of one large image on a CPU: crop, resize, flip, colour jitter, greyscale, blur.

annulus.views.large compiles and calls this file, after a comparison with the operators. The formulas are in
annulus.views.crop (resize_matrices), annulus.views.colour and annulus.views.gaussian. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BRIGHTNESS, CONTRAST, SATURATION, HUE }; /* annulus.views.colour */

static inline float lower(float a, float b) { return a < b ? a : b; }
static inline float higher(float a, float b) { return a > b ? a : b; }
static inline float unit(float value) { return lower(higher(value, 0.0f), 1.0f); }
static inline float luma(float red, float green, float blue) { return 0.2989f * red + 0.587f * green + 0.114f * blue; }

/* For each of `size` output pixels of an axis: the first of `taps` input pixels, and weights[tap * size + output]. */
typedef struct {
    int taps;
    int *first;
    float *weights;
} Axis;

static int axis_of(Axis *axis, int length, int size, int mirrored, double scale)
{
    double step = (double)length / size, reach = step > 1 ? step : 1;
    int taps = (int)ceil(2 * reach); /* the largest number of pixel centres within the reach */
    axis->taps = taps < length ? taps : length;
    axis->first = malloc(size * sizeof(int));
    axis->weights = malloc((size_t)axis->taps * size * sizeof(float));
    if (!axis->first || !axis->weights)
        return 0;
    for (int output = 0; output < size; output++) {
        double centre = step * ((mirrored ? size - 1 - output : output) + 0.5), total = 0;
        int first = (int)floor(centre - reach + 0.5), last = length - axis->taps;
        first = first < 0 ? 0 : first > last ? last : first;
        for (int tap = 0; tap < axis->taps; tap++) {
            double weight = 1 - fabs(first + tap + 0.5 - centre) / reach;
            total += weight > 0 ? weight : 0;
        }
        for (int tap = 0; tap < axis->taps; tap++) {
            double weight = 1 - fabs(first + tap + 0.5 - centre) / reach;
            axis->weights[(size_t)tap * size + output] = weight > 0 ? (float)(weight * scale / total) : 0;
        }
        axis->first[output] = first;
    }
    return 1;
}

#define INLINE static inline __attribute__((always_inline))

/* Weighted sum of `taps` rows of bytes; its numbers are `apart` from each other. */
INLINE void sum_rows(int taps, const unsigned char *rows, long stride, const float *weights, int of_tap, long count,
                     int apart, float *restrict result)
{
    for (long place = 0; place < count; place++) {
        float sum = 0;
        for (int tap = 0; tap < taps; tap++)
            sum += weights[(long)tap * of_tap] * rows[tap * stride + place];
        result[place * apart] = sum;
    }
}

typedef float Four __attribute__((vector_size(16))); /* red, green, blue, and the next number */

/* Weighted sums of `taps` pixels along a row of `row[apart * pixel + channel]`, which has one more number at its end. */
INLINE void sum_columns(int taps, const float *row, int apart, const Axis *across, int size, float *restrict red,
                        float *restrict green, float *restrict blue)
{
    for (int output = 0; output < size; output++) {
        const float *from = row + apart * across->first[output];
        Four sum = {0}, pixel;
        for (int tap = 0; tap < taps; tap++) {
            memcpy(&pixel, from + apart * tap, sizeof pixel);
            sum += across->weights[(long)tap * size + output] * pixel;
        }
        red[output] = sum[0];
        green[output] = sum[1];
        blue[output] = sum[2];
    }
}

/* With a constant number of taps, the compiler unrolls the loops over them. */
#define BY_TAPS(function, taps, ...) \
    switch (taps) { \
    case 1: function(1, __VA_ARGS__); break; \
    case 2: function(2, __VA_ARGS__); break; \
    case 3: function(3, __VA_ARGS__); break; \
    case 4: function(4, __VA_ARGS__); break; \
    default: function(taps, __VA_ARGS__); \
    }

static void together_down(const unsigned char *rows, long stride, const Axis *down, int size, int output, long count,
                          float *row)
{
    rows += down->first[output] * stride;
    BY_TAPS(sum_rows, down->taps, rows, stride, down->weights + output, size, count, 1, row)
}

static void plane_down(const unsigned char *rows, long stride, const Axis *down, int size, int output, long count,
                       float *row)
{
    rows += down->first[output] * stride;
    BY_TAPS(sum_rows, down->taps, rows, stride, down->weights + output, size, count, 3, row)
}

static void across_row(const float *row, int apart, const Axis *across, int size, float *red, float *green, float *blue)
{
    BY_TAPS(sum_columns, across->taps, row, apart, across, size, red, green, blue)
}

static void blend(float *restrict red, float *restrict green, float *restrict blue, int count, float factor, float mean,
                  float grey_share)
{
    for (int place = 0; place < count; place++) {
        float with = mean + grey_share * luma(red[place], green[place], blue[place]);
        red[place] = unit(factor * red[place] + with);
        green[place] = unit(factor * green[place] + with);
        blue[place] = unit(factor * blue[place] + with);
    }
}

static void turn_hue(float *restrict red, float *restrict green, float *restrict blue, int count, float turn)
{
    for (int place = 0; place < count; place++) {
        float r = red[place], g = green[place], b = blue[place];
        float largest = higher(higher(r, g), b), smallest = lower(lower(r, g), b);
        float chroma = largest - smallest, sixfold = 6 * chroma;
        float angle = fabsf(g + b - r + largest - 2 * smallest) / higher(sixfold, 1e-12f);
        angle = (g < b ? -angle : angle) + turn + 1;
        angle -= floorf(angle);
        r = smallest - chroma + sixfold * fabsf(angle - 1.0f / 2);
        g = largest + chroma - sixfold * fabsf(angle - 1.0f / 3);
        b = largest + chroma - sixfold * fabsf(angle - 2.0f / 3);
        red[place] = lower(higher(r, smallest), largest);
        green[place] = lower(higher(g, smallest), largest);
        blue[place] = lower(higher(b, smallest), largest);
    }
}

static void change(float *red, float *green, float *blue, int count, int kind, float amount, float mean)
{
    if (kind == HUE)
        turn_hue(red, green, blue, count, amount);
    else
        blend(red, green, blue, count, amount, kind == CONTRAST ? (1 - amount) * mean : 0,
              kind == SATURATION ? 1 - amount : 0);
}

static void finish(float *restrict red, float *restrict green, float *restrict blue, int count, int grey)
{
    for (int place = 0; place < count; place++) {
        float value = luma(red[place], green[place], blue[place]);
        red[place] = lower(grey ? value : red[place], 1.0f);
        green[place] = lower(grey ? value : green[place], 1.0f);
        blue[place] = lower(grey ? value : blue[place], 1.0f);
    }
}

/* Weights of a Gaussian's middle, halved, and of its other pixels; returns the reach of the weights that count. */
static int gaussian_of(float *weights, int reach, double sigma)
{
    double total = 1;
    while (reach && exp(-0.5 * (reach / sigma) * (reach / sigma)) < 1e-8) /* less than a float's last bit */
        reach--;
    for (int apart = 1; apart <= reach; apart++)
        total += 2 * exp(-0.5 * (apart / sigma) * (apart / sigma));
    for (int apart = 0; apart <= reach; apart++)
        weights[apart] = (float)(exp(-0.5 * (apart / sigma) * (apart / sigma)) / (apart ? total : 2 * total));
    return reach;
}

typedef float Eight __attribute__((vector_size(32)));

static inline Eight eight(const float *from)
{
    Eight numbers;
    memcpy(&numbers, from, sizeof numbers);
    return numbers;
}

/* Weighted sums of pairs of numbers on both sides, at distance `step`. Rows have BLOCK - 1 more numbers at their end.
   Four sums at a time share a weight. Products are not fused with sums, so that digits do not depend on the number of
   sums. */
enum { BLOCK = 32 };

__attribute__((optimize("fp-contract=off"))) static void blur_row(const float *middle, long step, int reach,
                                                                  const float *weights, int count,
                                                                  float *restrict result)
{
    for (int place = 0; place < count; place += BLOCK, middle += BLOCK, result += BLOCK) {
        Eight first = {0}, second = {0}, third = {0}, fourth = {0};
        const float *before = middle, *after = middle;
        for (int apart = 0; apart <= reach; apart++, before -= step, after += step) {
            first += weights[apart] * (eight(before) + eight(after));
            second += weights[apart] * (eight(before + 8) + eight(after + 8));
            third += weights[apart] * (eight(before + 16) + eight(after + 16));
            fourth += weights[apart] * (eight(before + 24) + eight(after + 24));
        }
        Eight sums[] = {first, second, third, fourth};
        memcpy(result, sums, place + BLOCK <= count ? sizeof sums : (count - place) * sizeof(float));
    }
}

/* Blurs a plane in place; borders are mirrored without repeating the border pixel. `high` has room for size + 2 * reach
   rows, `wide` for size + 2 * reach numbers. */
static void blur(float *plane, int size, int reach, const float *weights, float *high, float *wide)
{
    size_t row = size * sizeof(float);
    float *first = high + (long)reach * size, *last = first + (long)(size - 1) * size, *middle = wide + reach;
    memcpy(first, plane, size * row);
    for (int apart = 1; apart <= reach; apart++) {
        memcpy(first - (long)apart * size, first + (long)apart * size, row);
        memcpy(last + (long)apart * size, last - (long)apart * size, row);
    }
    for (int output = 0; output < size; output++) {
        blur_row(first + (long)output * size, size, reach, weights, size, middle);
        for (int apart = 1; apart <= reach; apart++) {
            middle[-apart] = middle[apart];
            middle[size - 1 + apart] = middle[size - 1 - apart];
        }
        float *result = plane + (long)output * size;
        blur_row(middle, 1, reach, weights, size, result);
        for (int place = 0; place < size; place++)
            result[place] = lower(result[place], 1.0f); /* the weights sum to one up to rounding */
    }
}

/* Returns 0 if memory is short, else 1. */
static int blur_view(float *view, int size, int reach, double sigma)
{
    reach = reach < size ? reach : size - 1;
    size_t side = size + 2 * (size_t)reach;
    float *high = malloc((side * size + side + reach + BLOCK) * sizeof(float)), *wide = high + side * size;
    if (!high)
        return 0;
    reach = gaussian_of(wide + side, reach, sigma);
    for (long channel = 0; channel < 3; channel++)
        blur(view + channel * size * size, size, reach, wide + side, high, wide);
    free(high);
    return 1;
}

/* image: bytes of a box of height x width pixels. Rows are `of_row` bytes apart, channels `of_channel`, and pixels
   `of_pixel`: 1 in planes, or 3 or 4 with channels last. view: 3 planes of size x size numbers in [0, 1]. kinds and
   amounts: the operators of the jitter in order. sigma: of a blur with `reach` pixels at most; 0: without blur.
   Returns 0 if memory is short, else 1. */
int annulus_view(const unsigned char *image, long of_row, long of_channel, int of_pixel, int height, int width,
                 int mirrored, int operators, const int *kinds, const float *amounts, int grey, float sigma, int reach,
                 int size, float *view)
{
    int together = of_channel == 1, apart = together ? of_pixel : 3, contrast = 0;
    long plane = (long)size * size;
    Axis down = {0}, across = {0};
    float *row = calloc(apart * (size_t)width + 1, sizeof(float));
    int ready = axis_of(&down, height, size, 0, 1.0 / 255) & axis_of(&across, width, size, mirrored, 1) & (row != NULL);
    double total = 0;

    while (contrast < operators && kinds[contrast] != CONTRAST)
        contrast++;
    for (int output = 0; ready && output < size; output++) {
        float *red = view + (long)output * size, *green = red + plane, *blue = green + plane;
        if (together)
            together_down(image, of_row, &down, size, output, (long)apart * (width - 1) + 3, row);
        for (int channel = 0; !together && channel < 3; channel++)
            plane_down(image + channel * of_channel, of_row, &down, size, output, width, row + channel);
        across_row(row, apart, &across, size, red, green, blue);
        for (int number = 0; number < contrast; number++)
            change(red, green, blue, size, kinds[number], amounts[number], 0);
        if (contrast == operators) {
            finish(red, green, blue, size, grey);
            continue;
        }
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int place = 0; place < size; place++)
            sum += luma(red[place], green[place], blue[place]);
        total += sum;
    }
    /* Contrast blends with the mean grey after the operators before it. */
    for (int output = 0; ready && contrast < operators && output < size; output++) {
        float *red = view + (long)output * size, *green = red + plane, *blue = green + plane;
        for (int number = contrast; number < operators; number++)
            change(red, green, blue, size, kinds[number], amounts[number], (float)(total / plane));
        finish(red, green, blue, size, grey);
    }
    if (ready && sigma > 0)
        ready = blur_view(view, size, reach, sigma);
    free(row);
    free(down.first);
    free(down.weights);
    free(across.first);
    free(across.weights);
    return ready;
}

# docker build -t hardneg .                                                                          (for CPUs)
# docker build -t hardneg --build-arg TORCH=https://download.pytorch.org/whl/cu126 --build-arg EXTRAS=demo,gpu .
# docker run --rm -v "$PWD:/work" -v hardneg:/store hardneg recipe run star-passage
FROM python:3.11-slim-bookworm
ARG TORCH=https://download.pytorch.org/whl/cpu
ARG EXTRAS=demo,cpu
COPY . /src
RUN pip install --no-cache-dir --constraint /src/constraints.txt --index-url "$TORCH" torch \
    && pip install --no-cache-dir --constraint /src/constraints.txt "/src[$EXTRAS]" \
    && rm -r /src
ENV HARDNEG_STORE=/store NUMBA_DISABLE_JIT=1
WORKDIR /work
ENTRYPOINT ["hardneg"]
CMD ["--help"]
